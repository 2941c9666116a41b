"""The loop: learns, resumes bit for bit, stops where it should, and loses nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.errors import CheckpointError, ConfigurationError, InputError, UsageError
from pipelines.training.artifacts import RunFolder
from pipelines.training.events import EpochDone, Event, StepDone
from pipelines.training.fitting.initial_model import model_config
from pipelines.training.fitting.loop import TrainingInterrupted
from pipelines.training.recipes.recipe import AugmentationOptions, Recipe, ScheduleOptions
from pipelines.training.run import RunResult, make_problem, train_on
from tests.training.training_problems import BANDS, CLASSES, WIDTH, clip_data, stream_data, tiny_recipe, with_model

pytestmark = pytest.mark.slow

AUGMENTED = AugmentationOptions(
    time_masks=1, time_mask=3, noise=0.1, mixup=0.4, gain=0.2, speed=0.1, bands=3, warp=0.2, equalizer=0.2
)


class InterruptAfter:
    """Presses Ctrl-C after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepDone):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)


def weights(folder: Path, name: str = "last.safetensors") -> dict[str, torch.Tensor]:
    return load_checkpoint(folder / name).model.state_dict()


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = weights(one), weights(other)
    return all(torch.equal(value, theirs[name]) for name, value in ours.items())


def history(folder: Path) -> list[list[str]]:
    """metrics.csv without the times."""
    return [line.split(",")[:11] for line in (folder / "metrics.csv").read_text().splitlines()]


def test_learns_a_tiny_stream_problem_to_the_end(tmp_path: Path) -> None:
    result = train_on(stream_data(), tiny_recipe(epochs=30), RunFolder(tmp_path))
    assert result.metric == "map"
    assert result.scores is not None and result.scores.map is not None
    assert result.scores.map > 0.95
    checkpoint = load_checkpoint(tmp_path / "best.safetensors")
    assert checkpoint.class_names == ("background", "one", "two", "three")
    assert checkpoint.provenance["validation"]["map"] == result.scores.map
    assert {path.name for path in tmp_path.iterdir()} == {
        "best.safetensors",
        "last.safetensors",
        "state.pt",
        "config.toml",
        "environment.json",
        "recordings.csv",
        "metrics.csv",
        "curves.png",
        "report.html",
        "summary.json",
        "README.md",
    }


@pytest.mark.parametrize("preset", ["cotrans-b1", "trans-b1", "cotrans-b2"])
def test_learns_tiny_clips(tmp_path: Path, preset: str) -> None:
    recipe = tiny_recipe(epochs=20)
    recipe = replace(recipe, model=replace(recipe.model, preset=preset))
    result = train_on(clip_data(), recipe, RunFolder(tmp_path))
    assert result.scores is not None and result.scores.accuracy == 1.0
    assert (result.scores.accuracy_mean is not None) == (preset == "cotrans-b1")


@pytest.mark.parametrize("saved", [True, False])
def test_the_card_has_the_command_that_began_a_run_and_those_that_went_on(
    saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*arguments: str) -> None:
        monkeypatch.setattr("sys.argv", ["cotrans", *arguments])

    folder = RunFolder(tmp_path / "run")
    command("train", "clips")
    with pytest.raises(TrainingInterrupted):
        train_on(stream_data(), tiny_recipe(), folder, observer=InterruptAfter(7))
    if not saved:
        folder.state.unlink()  # killed before its first epoch was saved
    command("train", "--resume", "run")
    train_on(stream_data(), folder.recipe(), folder, resume=True)
    made = "## How it was made\n\n    cotrans train clips\n    cotrans train --resume run\n\nThe whole recipe"
    assert made in (folder.path / "README.md").read_text()
    folder.go_on("cotrans train --resume run")  # the same again is no other command
    folder.go_on("cotrans train --resume run --epochs 9")
    begun, *later = folder.commands()
    assert begun == "cotrans train clips"
    assert later == ["cotrans train --resume run", "cotrans train --resume run --epochs 9"]


@pytest.mark.parametrize(
    ("changes", "training", "steps"),
    [
        ({}, {"standardize": True, "ema": 0.9}, 5),
        ({"blocks": 2}, {"stride": 4}, 7),
        ({"blocks": 2, "stacking": "deep"}, {}, 12),
        ({"positional": "relative"}, {}, 5),
    ],
)
def test_resumed_run_is_the_uninterrupted_one_bit_for_bit(
    tmp_path: Path, changes: dict, training: dict, steps: int
) -> None:
    recipe = with_model(tiny_recipe(**training), **changes)
    recipe = replace(
        recipe,
        augmentation=AUGMENTED,
        schedule=ScheduleOptions(name="plateau", patience=0, factor=0.5, warm_up=0.5),
        optimizer=replace(recipe.optimizer, age_rate=7.0),
    )
    data = replace(stream_data(), spec=BANDS)
    train_on(data, recipe, RunFolder(tmp_path / "whole"))
    with pytest.raises(TrainingInterrupted, match="stopped in epoch"):
        train_on(data, recipe, RunFolder(tmp_path / "parts"), observer=InterruptAfter(steps))
    torch.manual_seed(12345)  # what the surrounding program does with its random numbers does not matter
    np.random.seed(12345)
    train_on(data, RunFolder(tmp_path / "parts").recipe(), RunFolder(tmp_path / "parts"), resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "parts")
    assert history(tmp_path / "whole") == history(tmp_path / "parts")
    one, other = (torch.load(tmp_path / name / "state.pt", weights_only=True) for name in ("whole", "parts"))
    moments = [state["optimizer"]["state"] for state in (one, other)]
    assert all(torch.equal(moments[0][key]["exp_avg_sq"], moments[1][key]["exp_avg_sq"]) for key in moments[0])


def test_the_same_seed_gives_the_same_weights_and_another_one_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_on(clip_data(), tiny_recipe(epochs=1, seed=seed), RunFolder(tmp_path / name))
    assert same_weights(tmp_path / "a", tmp_path / "b")
    assert not same_weights(tmp_path / "a", tmp_path / "c")


def test_nan_in_the_loss_stops_with_step_and_batch(tmp_path: Path) -> None:
    recipe = tiny_recipe(epochs=4)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, name="sgd", learning_rate=1e30, gradient_clip=0.0))
    with pytest.raises(ConfigurationError, match=r"epoch 1, step \d+, on the batch train-\d\[\d+:\d+\], train-"):
        train_on(stream_data(), recipe, RunFolder(tmp_path))


def test_nan_in_features_names_recording_and_row(tmp_path: Path) -> None:
    data = stream_data()
    rows = np.array(data.train[1].rows[:])
    rows[13, 2] = np.nan
    broken = replace(data, train=(data.train[0], replace(data.train[1], rows=rows)))
    with pytest.raises(InputError, match="train-1: NaN or infinity in its features, first in row 13"):
        train_on(broken, tiny_recipe(), RunFolder(tmp_path))


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    """A real limit on the size of files stands in for the full disk: the kernel refuses the write half-way."""
    script = tmp_path / "run.py"
    script.write_text(
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from tests.training.training_problems import stream_data, tiny_recipe\n"
        "from pipelines.errors import CotransError\n"
        "from pipelines.training.artifacts import RunFolder\n"
        "from pipelines.training.events import EpochDone\n"
        "from pipelines.training.run import train_on\n"
        "def watch(event):\n"
        "    if isinstance(event, EpochDone) and event.epoch == 2:\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        f"    folder = RunFolder(Path({str(tmp_path / 'run')!r}))\n"
        "    train_on(stream_data(), tiny_recipe(epochs=4), folder, observer=watch)\n"
        "except CotransError as error:\n"
        "    print(error)\n"
        "    sys.exit(error.exit_code)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, env=_environment(), check=False)
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.startswith("the disk is full: cannot write to")
    assert ended.stdout.strip().endswith("the last good checkpoint is " + str(tmp_path / "run" / "last.safetensors"))
    assert load_checkpoint(tmp_path / "run" / "last.safetensors").provenance["epoch"] == 2
    assert not list((tmp_path / "run").glob(".*"))  # no half files
    result = train_on(stream_data(), tiny_recipe(epochs=4), RunFolder(tmp_path / "run"), resume=True)
    assert result.epochs == 4
    train_on(stream_data(), tiny_recipe(epochs=4), RunFolder(tmp_path / "whole"))
    assert same_weights(tmp_path / "run", tmp_path / "whole")


def test_answers_that_come_sooner_are_for_streams_with_a_lag() -> None:
    recipe = tiny_recipe(late=0.5)
    for data, tried in ((stream_data(), recipe), (clip_data(), with_model(recipe, lag=2))):
        with pytest.raises(ConfigurationError, match=r"training\.late is for streams"):
            make_problem(data, tried, model_config(tried, WIDTH, CLASSES), None)
    lagging = with_model(recipe, lag=2)
    assert make_problem(stream_data(), lagging, model_config(lagging, WIDTH, CLASSES), None).objective.late == 0.5


def test_early_stop_and_plateau(tmp_path: Path) -> None:
    recipe = tiny_recipe(epochs=20, early_stop=2)
    recipe = replace(
        recipe,
        optimizer=replace(recipe.optimizer, learning_rate=1e-30),
        schedule=ScheduleOptions(name="plateau", factor=0.5, patience=0),
    )
    epochs: list[EpochDone] = []
    result = train_on(
        clip_data(),
        recipe,
        RunFolder(tmp_path),
        observer=lambda e: epochs.append(e) if isinstance(e, EpochDone) else None,
    )
    assert result.epochs == 3
    assert [epoch.learning_rate for epoch in epochs] == [1e-30, 1e-30, 5e-31]


def test_small_data_are_passed_until_there_are_enough_steps(tmp_path: Path) -> None:
    recipe = tiny_recipe(epochs=2, least_steps=25)
    result = train_on(stream_data(), recipe, RunFolder(tmp_path / "run"))
    steps = result.steps / result.epochs
    assert result.steps >= 25 > result.steps - 2 * steps
    assert RunFolder(tmp_path / "run").recipe().training.epochs == result.epochs
    assert train_on(stream_data(), tiny_recipe(epochs=2, least_steps=1), RunFolder(tmp_path / "enough")).epochs == 2


def test_waiting_for_a_metric_that_will_not_come_is_refused(tmp_path: Path) -> None:
    data = stream_data(validation=())
    for recipe in (tiny_recipe(early_stop=2), replace(tiny_recipe(), schedule=ScheduleOptions(name="plateau"))):
        with pytest.raises(ConfigurationError, match="there is nothing to validate on"):
            train_on(data, recipe, RunFolder(tmp_path))


def test_a_checkpoint_says_which_loss_auto_was(tmp_path: Path) -> None:
    """`stream` makes probabilities of logits by it: a softmax would be wrong for several labels at once."""
    data = stream_data()
    several = replace(data, dataset=replace(data.dataset, multi_label=True))
    for name, chosen, loss in (("one", data, "cross-entropy"), ("several", several, "binary")):
        train_on(chosen, tiny_recipe(epochs=1, steps_per_epoch=1), RunFolder(tmp_path / name))
        assert load_checkpoint(tmp_path / name / "last.safetensors").provenance["loss"] == loss


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path))
    with pytest.raises(UsageError, match="holds a run already"):
        train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path))
    with pytest.raises(InputError, match="nothing to resume"):
        train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path / "other"), resume=True)
    (tmp_path / "state.pt").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(CheckpointError, match=r"state\.pt is damaged"):
        train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path), resume=True)


def test_state_of_another_model_is_refused(tmp_path: Path) -> None:
    train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path))
    with pytest.raises(CheckpointError, match="does not fit this run"):
        train_on(clip_data(), with_model(tiny_recipe(epochs=2), width=32), RunFolder(tmp_path), resume=True)


def test_standardising_is_folded_into_the_checkpoint(tmp_path: Path) -> None:
    """The checkpoint takes raw features and gives the logits that the trained model gives for standardised ones."""
    from pipelines.training.run import make_model, make_problem, model_config
    from pipelines.training.samples.statistics import feature_statistics

    data = clip_data()
    recipe = tiny_recipe(epochs=2, standardize=True)
    train_on(data, recipe, RunFolder(tmp_path))
    statistics = feature_statistics(data.train)
    state = RunFolder(tmp_path).read_state()
    trained = make_model(recipe, model_config(recipe, data.width, 4), 0, None)
    trained.load_state_dict(state["model"])
    saved = load_checkpoint(tmp_path / "last.safetensors").model
    rows = torch.from_numpy(data.train[0].rows[:])[None]
    expected = trained.eval()(torch.from_numpy(statistics.standardize(rows.numpy())))
    torch.testing.assert_close(saved(rows), expected, rtol=1e-4, atol=1e-5)
    assert make_problem(data, recipe, saved.config, statistics).validator.score(trained).loss == pytest.approx(
        make_problem(data, tiny_recipe(), saved.config, None).validator.score(saved).loss, abs=1e-5
    )


def test_init_starts_from_a_checkpoint(tmp_path: Path) -> None:
    train_on(clip_data(), tiny_recipe(epochs=12), RunFolder(tmp_path / "first"))
    recipe = tiny_recipe(epochs=1)
    init = str(tmp_path / "first" / "best.safetensors")
    recipe = replace(recipe, model=replace(recipe.model, init=init))
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, learning_rate=1e-6))
    result = train_on(clip_data(), recipe, RunFolder(tmp_path / "second"))
    assert result.scores is not None and result.scores.accuracy == 1.0
    with pytest.raises(ConfigurationError, match=r"model\.width is 32, but .* has 16"):
        train_on(clip_data(), with_model(recipe, width=32), RunFolder(tmp_path / "third"))


def test_a_metric_that_will_not_be_there_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="clips have accuracies"):
        train_on(clip_data(), tiny_recipe(metric="map"), RunFolder(tmp_path))
    with pytest.raises(ConfigurationError, match="only a banded pass"):
        train_on(clip_data(), with_model(tiny_recipe(metric="accuracy_vote"), blocks=2), RunFolder(tmp_path))
    assert not list(tmp_path.iterdir())


def test_without_validation_the_last_epoch_is_the_best(tmp_path: Path) -> None:
    result = train_on(replace(clip_data(), validation=()), tiny_recipe(epochs=2), RunFolder(tmp_path))
    assert (result.scores, result.best_epoch, result.metric) == (None, 2, "loss")
    assert weights(tmp_path, "best.safetensors").keys() == weights(tmp_path).keys()


def test_works_in_a_thread_without_signals(tmp_path: Path) -> None:
    results: list[RunResult] = []
    thread = threading.Thread(
        target=lambda: results.append(train_on(clip_data(), tiny_recipe(epochs=1), RunFolder(tmp_path)))
    )
    thread.start()
    thread.join()
    assert results[0].epochs == 1


def test_two_gloo_processes_give_the_result_of_one(tmp_path: Path) -> None:
    """With mixing, masks, clipping and a last batch that leaves one process without a sample."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from tests.training.test_loop import distributed_recipe\n"
        "from dataclasses import replace\n"
        "from tests.training.training_problems import BANDS, clip_data\n"
        "from pipelines.training.artifacts import RunFolder\n"
        "from pipelines.training.fitting.distributed import processes\n"
        "from pipelines.training.run import train_on\n"
        "torch.set_num_threads(1)\n"
        "with processes(torch.device('cpu')) as group:\n"
        "    assert group.size == 2\n"
        "    data = replace(clip_data(25), spec=BANDS)\n"
        f"    train_on(data, distributed_recipe(), RunFolder(Path({str(tmp_path / 'two')!r})), group=group)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--standalone"]
    ended = subprocess.run([*command, script], capture_output=True, text=True, env=_environment(), check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    train_on(replace(clip_data(25), spec=BANDS), distributed_recipe(), RunFolder(tmp_path / "one"))
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], rtol=1e-4, atol=1e-5, msg=name)
    losses = [float(row[3]) for row in history(tmp_path / "one")[1:]]
    assert losses == pytest.approx([float(row[3]) for row in history(tmp_path / "two")[1:]], rel=1e-4)
    assert losses[-1] < 0.9 * losses[0]


def distributed_recipe() -> Recipe:
    recipe = with_model(tiny_recipe(epochs=3, batch_size=8, standardize=True), dropout=0.0)
    return replace(recipe, augmentation=AUGMENTED)


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}


assert resource.RLIMIT_FSIZE is not None  # POSIX only, as the test of the full disk


def test_best_breaks_ties_by_the_validation_loss(tmp_path: Path) -> None:
    """Few recordings tie often, and the earliest of the best epochs has learned least."""
    result = train_on(clip_data(), tiny_recipe(epochs=12), RunFolder(tmp_path))
    rows = [epoch.split(",") for epoch in (tmp_path / "metrics.csv").read_text().splitlines()]
    header = rows[0]
    epochs = [dict(zip(header, row, strict=True)) for row in rows[1:]]

    def value(row: dict[str, str]) -> tuple[float, float]:
        return float(row["validation_accuracy"]), -float(row["validation_loss"])

    assert result.best_epoch == int(max(epochs, key=value)["epoch"])
    assert sum(row["validation_accuracy"] == max(epochs, key=value)["validation_accuracy"] for row in epochs) > 1


@pytest.mark.parametrize("stride", [1, 4])
def test_clips_of_a_model_with_a_lag_count_once(tmp_path: Path, stride: int) -> None:
    """Every answer of a clip is about the whole of it: what would come later is no second one."""
    data = clip_data()
    recipe = with_model(tiny_recipe(epochs=2, validation_stride=stride), lag=2)
    scores = train_on(data, recipe, RunFolder(tmp_path)).last_scores
    assert scores is not None and scores.accuracy is not None
    model = load_checkpoint(tmp_path / "last.safetensors").model
    right = 0
    for clip in data.validation:
        tokens = torch.from_numpy(np.asarray(clip.rows[:]))[None]
        logits, _ = model.steps(tokens, model.initial_state(1))
        right += int(logits[0, -1].argmax()) == clip.label
    assert scores.accuracy == right / len(data.validation)
