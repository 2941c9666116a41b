"""What the cards of the built-in models say is true: of the files beside them, the data, and their own figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.builtin import builtin_models
from pipelines.checkpoints.checkpoint import load_checkpoint

MOST_NAMED = 12  # classes: a card that would have to name more says how many there are
MODELS = {model.name: model for model in builtin_models()}
# Where the recordings lie that a card counts, below the folder of shared data.
RECORDINGS = {
    "golf-swing": "golf/clips/*.mp4",
    "music-genre": "gtzan/genres/*/*.ogg",
    "sound-events": "esc10/*/*.ogg",
    "spoken-digits": "spoken_digits/*.flac",
}


def card(name: str) -> str:
    return MODELS[name].path.with_suffix(".md").read_text(encoding="utf-8")


def card_rows(name: str) -> dict[str, str]:
    return dict(re.findall(r"^\| ([a-z ]+) \| (.+) \|$", card(name), re.MULTILINE))


@pytest.mark.parametrize("name", MODELS)
def test_a_card_tells_what_the_file_is(name: str) -> None:
    model, text, rows = MODELS[name], card(name), card_rows(name)
    assert model.features is not None
    for part in model.features.parts:
        assert f"`{part.name}`" in text
    named = [label for label in model.class_names if not label.isdecimal()]
    if len(named) <= MOST_NAMED:
        assert all(label in rows["says"] for label in named)
    else:
        assert f"{len(model.class_names)} classes" in rows["says"]
    parameters = sum(tensor.numel() for tensor in load_checkpoint(model.path).model.parameters())
    assert f"{parameters:,} parameters" in rows["model"]
    if model.window > 1:
        assert f"window {model.window}" in rows["model"]
    assert {"says", "model", "trained on", "made by", "score", "licence"} <= rows.keys()


@pytest.mark.parametrize("name", MODELS)
def test_a_card_knows_its_costs_and_its_seed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = card_rows(name)
    assert run(["flops", name, "--json"]) == 0
    macs = json.loads(capsys.readouterr().out)["step_macs"]
    for told in re.findall(r"([\d.]+) M MACs per prediction", rows["model"]):
        assert float(told) == pytest.approx(macs / 1e6, abs=0.0051)
    recipe = load_checkpoint(MODELS[name].path).provenance.get("recipe")
    if recipe is not None:
        assert f"seed {recipe['training'].get('seed', 0)}" in rows["made by"]


@pytest.mark.parametrize("name", MODELS)
def test_means_are_those_of_the_figures_in_front_of_them(name: str) -> None:
    for before, mean in re.findall(r":([^:|]*)\bmean (\d+\.\d)", card(name)):
        figures = [float(figure) for figure in re.findall(r"(?<!± )\b\d+\.\d", before)]
        # Both are rounded to a tenth.
        assert len(figures) > 1 and np.mean(figures) == pytest.approx(float(mean), abs=0.1001), (before, mean)


@pytest.mark.parametrize("name", MODELS)
def test_hard_classes_are_those_with_the_lowest_figures(name: str) -> None:
    """Each figure by class stands in a row of the card ("by genre"); the text names the lowest, hardest first."""
    model, text = MODELS[name], card(name)
    assert len(re.findall(r"hard ones|hardest classes", text)) == len(re.findall(r"are the hard ones", text))
    for names in re.findall(r"^(.*) are the hard ones", text, re.MULTILINE):
        (by_class,) = [row for title, row in card_rows(name).items() if title.startswith("by ")]
        figures = {label: float(figure) for label, figure in re.findall(r"(\w+) (\d+\.\d)(?=,| %)", by_class)}
        assert set(figures) >= set(model.class_names)
        hard = re.split(r", | and ", names.lower())
        assert hard == sorted(model.class_names, key=lambda label: figures[label])[: len(hard)]


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_are_counted_right(name: str, shared_dir: Path) -> None:
    found = [path.stem for path in shared_dir.glob(RECORDINGS[name])]
    trained_on = card_rows(name)["trained on"]
    assert f"{len(found):,}" in re.findall(r"[\d,]*\d", trained_on)
    if name == "spoken-digits":
        assert all(speaker in trained_on for speaker in {stem.split("_")[1] for stem in found})
