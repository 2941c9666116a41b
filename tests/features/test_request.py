"""One request for features: it comes back from a manifest, a checkpoint, a recipe and a command line as it went in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.datasets.source import FeatureOptions
from pipelines.errors import UsageError
from pipelines.features.extraction.run import ExtractionOptions, extract
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import ONLY, FeatureRequest, parse_options, parse_weights
from pipelines.features.stream_factory import StreamFactory
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.recipes.recipe_file import parse_recipe, recipe_text
from tests.features.made_recordings import write_video

REQUEST = FeatureRequest(
    "mobilenet_v2+logmel",
    hop=0.2,
    options={"logmel.n_mels": 8, "mobilenet_v2.frame": "last"},
    random_weights=True,
)
OPTIONS = st.dictionaries(
    st.sampled_from(["n_mels", "logmel.window", "network", "postprocess"]),
    st.one_of(st.integers(0, 99), st.floats(0.01, 9), st.booleans(), st.sampled_from(["mtt", "msd+mtt"])),
)
REQUESTS = st.builds(
    FeatureRequest,
    names=st.sampled_from(["logmel", "musicnn+logmel", "onnx:a+b.onnx+vggish"]),
    hop=st.none() | st.floats(0.01, 5),
    align=st.sampled_from(["causal", "centre", "start"]),
    options=OPTIONS,
    weights=st.dictionaries(st.sampled_from(["vggish", "musicnn"]), st.sampled_from(["a file.pth", "vggish-audioset"])),
)


@settings(deadline=None)
@given(REQUESTS)
def test_through_a_recipe(request: FeatureRequest) -> None:
    recipe = Recipe(features=FeatureOptions(request, cache="kept"))
    assert parse_recipe(recipe_text(recipe)).features == recipe.features


@settings(deadline=None)
@given(REQUESTS)
def test_through_json_as_workers_get_it(request: FeatureRequest) -> None:
    assert FeatureRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request


@settings(deadline=None)
@given(REQUESTS)
def test_through_the_words_of_a_command_line(request: FeatureRequest) -> None:
    words = request.flags()
    pairs = list(zip(words[::2], words[1::2], strict=True))
    given = {flag: [value for name, value in pairs if name == flag] for flag, _ in pairs}
    again = FeatureRequest(
        words[1],
        hop=float(given["--hop"][0]) if request.hop else None,
        align=request.align,
        options=parse_options(given.get("--option", [])),
        weights=parse_weights(given.get("--weights", [])),
    )
    assert again == request


def test_through_a_manifest_and_a_checkpoint(tmp_path: Path) -> None:
    """What they hold is the specification that the request gives; a request made of it gives the same again."""
    path = write_video(tmp_path / "v.mp4", 1.0)
    extract([str(path)], tmp_path / "out", ExtractionOptions(REQUEST))
    spec = read_features(tmp_path / "out" / "v.npy").spec
    assert spec is not None and spec == StreamFactory(REQUEST).prototype().spec
    model = ContinualTransformer(
        ModelConfig(input_width=spec.width, classes=2, window=4, width=8, heads=2, feed_forward=8, blocks=1)
    )
    save_checkpoint(tmp_path / "m.safetensors", model, class_names=("a", "b"), features=spec)
    kept = load_checkpoint(tmp_path / "m.safetensors").features
    assert kept is not None
    for known in (spec, kept):
        request = FeatureRequest.of_spec(known)
        assert StreamFactory(request).prototype().spec == spec
        assert FeatureRequest.of_spec(StreamFactory(request).prototype().spec) == request


def test_the_command_line_gives_the_same_features_as_the_request(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", 1.0)
    assert run(["extract", str(path), "--out", str(tmp_path / "out"), *REQUEST.flags()]) == 0
    assert read_features(tmp_path / "out" / "v.npy").spec == StreamFactory(REQUEST).prototype().spec


def test_weights_on_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b.pth").touch()
    assert parse_weights(["vggish=x.pth", "a=b.pth"]) == {"vggish": "x.pth", ONLY: "a=b.pth"}
    for texts, said in ((["vggish="], "NAME"), (["=x"], "NAME"), (["a.pth", "b.pth"], "twice"), ([""], "NAME")):
        with pytest.raises(UsageError, match=said):
            parse_weights(texts)


def test_a_recipe_that_sets_up_no_extractor_is_refused() -> None:
    with pytest.raises(UsageError, match="name it with --features"):
        FeatureOptions.from_values({"options": {"n_mels": 8}})
    with pytest.raises(UsageError, match="give one of them"):
        FeatureOptions.from_values({"names": "logmel", "directory": "features"})
    with pytest.raises(UsageError, match="a model has one"):
        FeatureOptions.from_values({"names": "logmel", "every": 3})
    assert FeatureOptions.from_values({"hop": 0.2, "directory": "features"}).hop == 0.2
