"""Detection on the real annotations of THUMOS14 with generated features: both layouts, chunks and windows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.opening import open_dataset
from pipelines.training.recipes.recipe_file import build_recipe
from pipelines.training.run import train

WIDTHS = {"rgb_made_up": 10, "flow_made_up": 6}
VIDEOS = {"train": 36, "test": 20}
SIZES = {"model.width": 32, "model.heads": 4, "model.feed_forward": 32, "model.window": 32}


@pytest.fixture(scope="module")
def roots(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same videos in OadTR's layout (pickled annotations) and in LSTR's (targets by video)."""
    if not (shared_dir / "thumos14").is_dir():
        pytest.skip("no THUMOS14 annotations here")
    base = tmp_path_factory.mktemp("thumos14")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTRANS_CACHE", str(base / "cache"))
        annotated = open_dataset("thumos14", shared_dir / "thumos14")
    generator = np.random.default_rng(0)
    prototypes = generator.normal(size=(len(annotated.class_names), sum(WIDTHS.values())))
    prototypes[annotated.ignored[0]] = 0
    for name in ("oadtr", "lstr"):
        (base / name).mkdir()
    shutil.copy(shared_dir / "thumos14" / "anno_thumos.zip", base / "oadtr")
    for split, count in VIDEOS.items():
        for item in annotated.split(split)[:count]:
            targets = np.load(str(item.targets))
            rows = targets @ prototypes
            # Blur: what a network sees of an action begins before and ends after its label.
            rows = np.stack([np.convolve(column, np.ones(5) / 5, mode="same") for column in rows.T], axis=1)
            rows += generator.normal(0, 1.0, rows.shape)
            first = 0
            for folder, width in WIDTHS.items():
                part = rows[:, first : first + width].astype(np.float32)
                first += width
                for name in ("oadtr", "lstr"):
                    path = base / name / folder / f"{item.name}.npy"
                    path.parent.mkdir(exist_ok=True)
                    np.save(path, part)
            path = base / "lstr" / "target_perframe" / f"{item.name}.npy"
            path.parent.mkdir(exist_ok=True)
            np.save(path, targets.astype(np.float32))
    return {"oadtr": base / "oadtr", "lstr": base / "lstr", "cache": base / "cache"}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("layout", "preset", "training"),
    [
        ("oadtr", "cooadtr-b1", {"training.chunk_batch": 4, "training.chunk": 64}),
        ("lstr", "cooadtr-b2", {"training.stride": 8, "training.validation_stride": 8}),
    ],
)
def test_map_rises_far_above_chance_in_two_epochs(
    roots: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    preset: str,
    training: dict[str, int],
) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(roots["cache"]))
    flags = {
        "data.dataset": "thumos14",
        "data.root": str(roots[layout]),
        "data.validate_on": "test",
        "model.preset": preset,
        "optimizer.learning_rate": 3e-3,  # a tiny model takes larger steps than the paper's
        "training.batch_size": 64,
    }
    recipe = build_recipe("paper", {**flags, **SIZES, **training})
    assert (recipe.training.epochs, recipe.schedule.name, recipe.training.loss) == (2, "step", "cross-entropy")
    result = train(recipe, tmp_path / "run", device="cpu")
    assert (result.train_recordings, result.validation_recordings) == (VIDEOS["train"], VIDEOS["test"])
    assert result.scores is not None and result.scores.map is not None
    # Chance is the share of the classes, about 2 %.
    assert result.scores.map > 0.3
    checkpoint = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert len(checkpoint.class_names) == 22
    assert "root" not in checkpoint.provenance["recipe"]["data"]
