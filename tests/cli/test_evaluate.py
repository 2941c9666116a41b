"""`cotrans evaluate` as a user runs it: tables, JSON, files, notes, and one line for each mistake."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cotrans_cli.display.evaluation import evaluation_progress
from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.published.gtzan import GENRES
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from tests.datasets.dataset_builders import write_sound, write_thumos_lstr
from tests.evaluation.evaluation_problems import LABELS, WIDTH, write_clips, write_gtzan, write_model

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COTRANS_DATA", raising=False)


def evaluate(*arguments: object) -> int:
    return run(["evaluate", *map(str, arguments)])


def result_of(capsys: Output, *arguments: object) -> dict[str, Any]:
    assert evaluate(*arguments, "--json") == 0
    return dict(json.loads(capsys.readouterr().out))


def mistake(capsys: Output, *arguments: object) -> tuple[int, str]:
    """Exit code and the one line that says what is wrong."""
    code = evaluate(*arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert len(lines) == 1, lines
    return code, lines[0].removeprefix("cotrans: error: ")


def regular_accuracy(checkpoint: Path, root: Path) -> float:
    """By hand: the regular model on the last window of each test clip."""
    model = load_checkpoint(checkpoint).model
    right = []
    for path in sorted((root / "test").rglob("*.npy")):
        tokens = torch.from_numpy(np.load(path))[None]
        right.append(int(model(tokens[:, -6:], start=tokens.shape[1] - 6).argmax()) == LABELS.index(path.parent.name))
    return float(np.mean(right))


def test_several_models_make_one_table(tmp_path: Path, capsys: Output) -> None:
    root, features = write_gtzan(tmp_path / "gtzan")
    one = write_model(tmp_path / "one.safetensors", GENRES, 1)
    two = write_model(tmp_path / "two.safetensors", GENRES, 2, blocks=2)
    common = ("--dataset", "gtzan", "--root", root, "--feature-dir", features, "--hop", 0.25, "-c", one, "-c", two)
    assert evaluate(*common) == 0
    printed = capsys.readouterr()
    table = printed.out.splitlines()
    assert table[0].strip() == "gtzan, test: 10 recordings"
    assert [line.split()[0] for line in table[4:7]] == ["majority", "one", "two"]
    assert "MACs/step" in printed.out and "× real time" in printed.out and "accuracy per class (%)" in printed.out
    assert "majority vote: softmax regression on 640 single rows of the training clips" in printed.err

    assert evaluate(*common, "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["model"] for row in rows] == ["majority vote", "one", "two"]
    assert float(rows[0]["score"]) == 1.0 and int(rows[0]["step_macs"]) == WIDTH * 10
    values = result_of(capsys, *common)
    assert values["baseline"]["value"] == 1.0
    for model, row in zip(values["models"], rows[1:], strict=True):
        assert float(row["score"]) == model["value"] == model["modes"]["chunk"]["value"]
        assert model["interval"]["low"] <= model["value"] <= model["interval"]["high"]
        assert int(row["step_macs"]) == model["cost"]["step_macs"] < model["cost"]["window_macs"]
        assert model["step"]["real_time_factor"] == pytest.approx(0.25 * model["step"]["frames_per_second"])
    assert values["metric"] == "accuracy" and values["value"] == values["models"][0]["value"]

    plot, saved = tmp_path / "plot.svg", tmp_path / "scores.npz"
    assert evaluate(*common, "--markdown", "--plot", plot, "--save", saved, "--no-baseline") == 0
    printed = capsys.readouterr()
    assert "| one | " in printed.out and "majority" not in printed.out
    assert "whole window" in plot.read_text()
    assert f"wrote {tmp_path / 'scores.two.npz'}" in printed.err
    again = result_of(capsys, "--dataset", "gtzan", "--predictions", tmp_path / "scores.two.npz")
    assert again["poolings"] == values["models"][1]["evaluations"][0]["poolings"]


def test_all_modes_agree(tmp_path: Path, capsys: Output) -> None:
    root = write_clips(tmp_path / "clips")
    model = write_model(tmp_path / "model.safetensors", blocks=2)
    common = ("--dataset", "folder", "--root", root, "-c", model, "--mode", "all")
    values = result_of(capsys, *common, "--on", "test")
    modes = values["models"][0]["modes"]
    assert list(modes) == ["stream", "chunk", "window"]
    assert {mode["value"] for mode in modes.values()} == {regular_accuracy(model, root)}
    assert values["models"][0]["agreement"]["relative"] < 2e-5
    assert modes["stream"]["step_us_p95"] >= modes["stream"]["step_us_median"] > 0
    assert evaluate(*common, "--plot", tmp_path / "confusion.png") == 0
    printed = capsys.readouterr()
    assert "stream, chunk, window agree: the outputs differ by at most " in printed.out
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_of_seeds_is_one_row(tmp_path: Path, capsys: Output) -> None:
    root = write_clips(tmp_path / "clips", test=8)
    files = [write_model(tmp_path / "run" / f"seed-{seed}" / "best.safetensors", seed=seed) for seed in range(3)]
    single = write_model(tmp_path / "other" / "best.safetensors", seed=9)
    for seed in (0, 1):
        (tmp_path / "run" / f"seed-{seed}" / "summary.json").write_text("{}")
    common = ("--dataset", "folder", "--root", root, "-c", tmp_path / "run", "-c", f"mine={single.parent}")
    values = result_of(capsys, *common, "--save", tmp_path / "p.npz")
    run_row, mine = values["models"]
    expected = [regular_accuracy(file, root) for file in files]
    assert run_row["values"] == pytest.approx(expected)
    assert run_row["value"] == pytest.approx(np.mean(expected))
    assert run_row["deviation"] == pytest.approx(np.std(expected, ddof=1)) and run_row["interval"] is None
    assert (run_row["name"], mine["name"]) == ("run", "mine") and mine["deviation"] is None
    assert f"{tmp_path / 'run'}: seed-2 did not finish training" in values["notes"]
    assert (tmp_path / "p.run.seed-1.npz").is_file() and (tmp_path / "p.mine.npz").is_file()
    assert evaluate(*common) == 0
    assert f"{100 * np.mean(expected):.2f} ± {100 * np.std(expected, ddof=1):.2f}" in capsys.readouterr().out


def test_splits_are_those_of_the_training(tmp_path: Path, capsys: Output) -> None:
    root, features = write_gtzan(tmp_path / "gtzan")
    record = {
        "data": {"dataset": "gtzan", "options": {"split_seed": 3}},
        "model": {"preset": "cotrans-b1"},
    }
    trained = write_model(tmp_path / "a.safetensors", GENRES, record=record)
    other = write_model(tmp_path / "b.safetensors", GENRES, record={"data": {"dataset": "gtzan", "options": {}}})
    common = ("--dataset", "gtzan", "--root", root, "--feature-dir", features, "--no-baseline")
    values = result_of(capsys, *common, "-c", trained, "-c", other, "--save", tmp_path / "p.npz")
    assert values["options"] == {"split_seed": "3"} and values["models"][0]["name"] == "cotrans-b1"
    assert [note for note in values["notes"] if str(other) in note] == [
        f"{other} was trained with the default splits, and is scored with split_seed 3: it may have seen what it is "
        "scored on"
    ]
    given = result_of(capsys, *common, "-c", trained, "--split-seed", 3, "--save", tmp_path / "q.npz")
    assert not any(str(trained) in note for note in given["notes"])
    with np.load(tmp_path / "p.cotrans-b1.npz") as first, np.load(tmp_path / "q.npz") as second:
        assert (first["video"] == second["video"]).all()
    notes = result_of(capsys, *common, "-c", trained, "--split-seed", 0)["notes"]
    assert any(f"{trained} was trained with split_seed 3, and is scored with split_seed 0" in note for note in notes)


def test_media_with_the_features_that_the_model_names(tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "sounds"
    for index in range(4):
        write_sound(root / "test" / LABELS[index % 2] / f"{index}.wav", 2.0, seed=index)
        write_sound(root / "train" / LABELS[index % 2] / f"t{index}.wav", 1.5, seed=10 + index)
    write_sound(root / "test" / "cat" / "short.wav", 2.0).write_bytes(b"RIFF")
    spec = StreamFactory(FeatureRequest("logmel", hop=0.1)).prototype().spec
    model = write_model(tmp_path / "m.safetensors", LABELS[:2], features=spec, input_width=spec.width)
    common = ("--dataset", "folder", "--root", root, "-c", model)
    values = result_of(capsys, *common)
    assert values["hop"] == 0.1 and values["clips"] == 4
    assert any("short.wav" in note for note in values["notes"])  # the dataset leaves it out, and says so
    assert run(["extract", str(root / "test"), "--out", str(tmp_path / "f"), "-f", "logmel", "--hop", "0.1"]) == 3
    capsys.readouterr()
    # The same files, extracted by hand: the same score. Training clips have none, and that is said.
    by_hand = result_of(capsys, *common, "--feature-dir", tmp_path / "f")
    assert by_hand["poolings"] == values["poolings"]
    assert result_of(capsys, *common, "--baseline")["baseline"]["fitted_rows"] == 4 * 15
    code, line = mistake(capsys, *common, "--features", "logmel", "--hop", 0.2)
    assert code == 4 and "was trained on other features: these have a hop of 0.2, not 0.1; leave" in line
    code, line = mistake(capsys, *common, "--hop", 0.2)
    assert code == 2 and "--hop is for recordings with a table of events" in line
    silent = write_model(tmp_path / "silent.safetensors", LABELS[:2], input_width=spec.width)
    code, line = mistake(capsys, "--dataset", "folder", "--root", root, "-c", silent)
    assert code == 2 and "does not say which it takes: name extractors with --features" in line


def test_frames_and_another_projects_checkpoint(tmp_path: Path, golden_dir: Path, capsys: Output) -> None:
    root = tmp_path / "thumos"
    write_thumos_lstr(root, {"rgb": 24, "flow": 12})
    common = ("--dataset", "thumos14", "--root", root, "-c", golden_dir / "oadtr_decoder.pth")
    values = result_of(capsys, *common, "--mode", "all")
    assert values["models"][0]["agreement"]["relative"] < 2e-5
    assert [horizon["ahead"] for horizon in values["anticipation"]] == [1, 2, 3, 4]
    assert values["protocol"] == "lstr" and values["trimmed"] == 0 and values["hop"] == 0.25
    assert any("does not name its classes" in note for note in values["notes"])
    trimmed = result_of(capsys, *common, "--protocol", "oadtr")
    # The model's own window of 16 and horizon of 4 decide what is left out: 15 and 5 frames of each of two videos.
    assert trimmed["trimmed"] == 2 * (15 + 5)
    wider = result_of(capsys, *common, "--protocol", "oadtr", "--window", 11, "--future", 0)
    assert wider["trimmed"] == 2 * (10 + 1)
    absent = [name for name, ap in zip(trimmed["classes"], trimmed["ap"], strict=True) if ap is None]
    assert trimmed["mAP"] == pytest.approx(np.mean([ap for ap in trimmed["ap"] if ap is not None]))
    said = f"no positive frame of {', '.join(absent)}: left out of the mean, which is over {20 - len(absent)} classes"
    assert absent and any(said in note for note in trimmed["notes"])
    assert evaluate(*common, "--protocol", "oadtr") == 0
    assert said in capsys.readouterr().err
    code, line = mistake(capsys, "--dataset", "thumos14", "--root", root, "-c", golden_dir / "oadtr_b1.pth")
    assert code == 2 and line.endswith("and evaluate what that writes")


def test_single_rows_stand_beside_models_of_frames(tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "thumos"
    write_thumos_lstr(root, {"rgb": 4, "flow": 2})
    names = tuple(open_dataset("thumos14", root).class_names)
    model = write_model(tmp_path / "m.safetensors", names, input_width=6)
    common = ("--dataset", "thumos14", "--root", root, "-c", model)
    values = result_of(capsys, *common, "--detail", "--at-precision", 0.5, "--hop", 0.5)
    linear, network = values["references"]
    assert (linear["name"], network["name"]) == ("single rows, linear", "single rows, network")
    assert linear["macs"] == 6 * 22 and linear["frames"] == values["frames"]
    below = max(linear["value"], network["value"]) > values["value"]
    assert below == any("its memory is worth nothing yet" in note for note in values["notes"])
    diagnosis = values["diagnosis"]
    assert diagnosis["precision"] == 0.5 and diagnosis["hours"] == pytest.approx(values["frames"] * 0.5 / 3600)
    assert diagnosis["total"]["actions"] == sum(counts["actions"] for counts in diagnosis["classes"]) > 0
    assert len(values["stages"]["mAP"]) == 10
    code, line = mistake(capsys, *common, "--detail", "--at-precision", 0, "--hop", 0.5)
    assert code == 4 and "must be above 0 and at most 1, not 0.0" in line
    assert evaluate(*common, "--detail", "--plot", tmp_path / "t.svg", "--plot-kind", "timeline") == 0
    printed = capsys.readouterr().out
    assert "single rows, network" in printed and "false alarms per hour" in printed
    assert "shaded: truth" in (tmp_path / "t.svg").read_text(encoding="utf-8")
    assert result_of(capsys, *common, "--no-baseline")["references"] == []
    assert mistake(capsys, *common, "--at-precision", 0.5) == (2, "--at-precision is that of --detail: add it")
    code, line = mistake(capsys, *common, "--video", "a")
    assert code == 2 and line.endswith("add --plot FILE --plot-kind timeline")


def test_events_that_overlap_are_scored_by_sigmoids(tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "events"
    root.mkdir()
    generator = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        np.save(root / f"{name}.npy", generator.normal(size=(20, WIDTH)).astype(np.float32))
    lines = [
        f"{name}.npy,{start},{start + 1},{label},{split}"
        for name, split in (("a", "train"), ("b", "test"), ("c", "test"))
        for start, label in ((0.2, "bark"), (0.7, "meow"), (2, "bark"))
    ]
    (root / "labels.csv").write_text("file,start,end,label,split\n" + "\n".join(lines) + "\n")
    names = ("background", "bark", "meow")
    record = {"data": {"dataset": "folder", "options": {"multi_label": True}}, "training": {"loss": "auto"}}
    model = write_model(tmp_path / "m.safetensors", names, record=record, lag=2)
    common = ("--dataset", "folder", "--root", root, "-c", model, "--feature-dir", root, "--hop", 0.2)
    values = result_of(capsys, *common, "--save", tmp_path / "p.npz")
    assert values["metric"] == "mAP" and values["classes"] == ["bark", "meow"]
    with np.load(tmp_path / "p.npz") as saved, torch.inference_mode():
        network = load_checkpoint(model).model
        tokens = torch.from_numpy(np.load(root / "b.npy"))[None]
        logits, _ = network.steps(tokens, network.initial_state(1))
        np.testing.assert_allclose(saved["scores"][:18], logits[0, 2:].sigmoid(), atol=1e-6)
        # The last rows are answered by the regular model on the last window.
        for shorter in (1, 0):
            last = network.with_lag(shorter)(tokens[:, -network.config.window :], 20 - network.config.window)
            np.testing.assert_allclose(saved["scores"][19 - shorter], last[0].sigmoid(), atol=1e-6)
        assert saved["label"][4].tolist() == [False, True, True] and len(saved["label"]) == 2 * 20


def test_a_damaged_item_is_counted(tmp_path: Path, capsys: Output) -> None:
    root = write_clips(tmp_path / "clips")
    (root / "test/dog/dog1.npy").write_bytes(b"damaged")
    broken = np.load(root / "test/owl/owl0.npy")
    broken[3] = np.nan
    np.save(root / "test/owl/owl0.npy", broken)
    common = ("--dataset", "folder", "--root", root, "-c", write_model(tmp_path / "m.safetensors"))
    values = result_of(capsys, *common)
    assert (values["items"], values["clips"]) == (9, 7)
    assert sorted(item["name"] for item in values["damaged"]) == ["test/dog/dog1", "test/owl/owl0"]
    assert evaluate(*common) == 0
    printed = capsys.readouterr()
    assert "folder, test: 7 recordings" in printed.out
    assert "note: 2 of 9 recordings could not be used and are not in the scores" in printed.err
    assert "left out: test/owl/owl0: its features hold NaN or infinity" in printed.err
    for path in (root / "test").rglob("*.npy"):
        np.save(path, np.full((10, WIDTH), np.nan, dtype=np.float32))
    code, line = mistake(capsys, *common)
    assert code == 3 and "no recording could be used" in line and "NaN" in line


def test_a_folder_of_ones_own(tmp_path: Path, capsys: Output) -> None:
    """Trained with folds, on all labels; scored on clips without folds, of some labels: all of them count."""
    recipe = {"data": {"dataset": "folder", "options": {"group": r"(\d+)-", "fold": "4"}}, "model": {"preset": "mine"}}
    model = write_model(tmp_path / "m.safetensors", record=recipe)
    mine = tmp_path / "mine"
    for label in ("owl", "cat"):
        (mine / label).mkdir(parents=True)
        for name in ("one", "two"):
            np.save(mine / label / f"{name}.npy", np.random.default_rng(len(name)).normal(size=(8, WIDTH)))
    assert evaluate("--dataset", "folder", "--root", mine, "-c", model) == 0
    printed = capsys.readouterr()
    assert "folder, all: 4 recordings" in printed.out
    notes = result_of(capsys, "--dataset", "folder", "--root", mine, "-c", model)["notes"]
    assert notes == [
        "only 4 recordings to score: the figures say little about others",
        "mine: no clip of dog: no accuracy for it",
        f"{mine} cannot be divided as the model's training data were (--group '(\\d+)-' does not match 'cat/one': give "
        "a pattern that finds the group in every name): taken to be other data, scored: all",
    ]
    values = result_of(capsys, "--dataset", "folder", "--root", mine, "-c", model, "--validation", 0.5, "--on", "all")
    assert (values["part"], values["clips"]) == ("all", 4)
    code, line = mistake(capsys, "--dataset", "folder", "--root", mine, "-c", model, "--fold", "3")
    assert code == 2 and "--group" in line


def write_some(root: Path, labels: tuple[str, ...] = ("owl", "cat")) -> Path:
    """Clips of some of the labels, in no split."""
    for number, label in enumerate(labels):
        (root / label).mkdir(parents=True)
        for name in ("one", "two"):
            np.save(root / label / f"{name}.npy", np.random.default_rng(number).normal(size=(8, WIDTH)))
    return root


def test_a_model_that_kept_nothing_out_scores_a_folder_as_a_whole(tmp_path: Path, capsys: Output) -> None:
    """As the built-in sound-events: there is no test or validation part to take over."""
    record = {"data": {"dataset": "folder", "options": {"validation": 0.0}}}
    model = write_model(tmp_path / "m.safetensors", ("owl", "cat"), record=record)
    values = result_of(capsys, "--dataset", "folder", "--root", write_some(tmp_path / "mine"), "-c", model)
    assert (values["part"], values["clips"]) == ("all", 4)
    said = "scored on all, which has the recordings that it was trained on, if "
    assert any(said in note for note in values["notes"])


def test_labels_that_the_model_does_not_know_are_told_before_anything_is_extracted(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "owl").mkdir(parents=True)
    write_sound(tmp_path / "mine" / "owl" / "a.wav", 2.0)
    monkeypatch.setattr("pipelines.evaluation.data.scored_data.cached_features", None)
    code, line = mistake(capsys, "--dataset", "folder", "--root", tmp_path / "mine", "-c", "sound-events")
    assert code == 4 and line.startswith("sound-events: the model does not know owl, of dataset folder")


def test_a_folder_may_lack_classes_that_training_named(tmp_path: Path, capsys: Output) -> None:
    """`--classes` and `--multi-label` of the training are not options of this folder."""
    for name, options in (("classes", {"classes": "owl,dog,cat"}), ("several", {"multi_label": True})):
        record = {"data": {"dataset": "folder", "options": options}}
        model = write_model(tmp_path / f"{name}.safetensors", ("owl", "dog", "cat"), record=record)
        root = write_some(tmp_path / f"of {name}")
        values = result_of(capsys, "--dataset", "folder", "--root", root, "-c", model, "--on", "all")
        assert values["clips"] == 4 and values["options"] == {}
        assert values["classes"] == ["owl", "dog", "cat"]


def test_training_clips_among_the_scored_ones_are_noted(tmp_path: Path, capsys: Output) -> None:
    root, other = write_clips(tmp_path / "clips"), write_clips(tmp_path / "other")
    record = {"data": {"dataset": "folder", "options": {}}}
    model = write_model(tmp_path / "run" / "best.safetensors", record=record)
    common = ("--dataset", "folder", "-c", model)
    hint = f", if {root} holds what it was trained on"
    words = (
        "{} is scored on {}, which has the recordings that it was trained on{}: the score says little about new ones"
    )
    for part in ("train", "all"):
        assert words.format(model, part, hint) in result_of(capsys, *common, "--root", root, "--on", part)["notes"]
        assert words.format(model, part, hint) in result_of(capsys, *common, "--root", root, "--split", part)["notes"]
    assert not any("trained on" in note for note in result_of(capsys, *common, "--root", root)["notes"])
    # Beside its run, a checkpoint knows where its data stood.
    (tmp_path / "run" / "config.toml").write_text(f'[data]\ndataset = "folder"\nroot = "{root}"\n')
    assert words.format(model, "all", "") in result_of(capsys, *common, "--root", root, "--on", "all")["notes"]
    assert not result_of(capsys, *common, "--root", other, "--on", "all")["notes"]

    genres, features = write_gtzan(tmp_path / "gtzan")
    model = write_model(tmp_path / "g.safetensors", GENRES, record={"data": {"dataset": "gtzan", "options": {}}})
    values = result_of(
        capsys, "--dataset", "gtzan", "--root", genres, "--feature-dir", features, "-c", model, "--on", "all"
    )
    assert values["items"] == 100 and values["baseline"] is None
    assert words.format(model, "all", "") in values["notes"]
    assert "no majority vote: it is fitted to the training clips, which are scored here" in values["notes"]


def test_streams_of_digits_are_those_of_the_training() -> None:
    from pipelines.evaluation.data.training_overlap import dividing_options

    record = {"fold": "theo", "pitch": 0.2, "one_voice": True, "feature_set": "x"}
    assert dividing_options(record) == {"fold": "theo", "pitch": 0.2, "one_voice": True}


def test_another_network_of_the_same_width_is_refused(tmp_path: Path, capsys: Output) -> None:
    write_sound(tmp_path / "sounds" / "test" / "cat" / "1.wav", 4.0)
    write_sound(tmp_path / "sounds" / "test" / "dog" / "1.wav", 4.0, seed=1)
    spec = StreamFactory(FeatureRequest("musicnn", hop=0.5)).prototype().spec
    model = write_model(tmp_path / "m.safetensors", LABELS[:2], features=spec, input_width=spec.width)
    common = ("--dataset", "folder", "--root", tmp_path / "sounds", "-c", model, "--features", "musicnn", "--hop", 0.5)
    code, line = mistake(capsys, *common, "--feature-option", "network=mtt")
    assert code == 4 and line.endswith(
        "these come from other options of musicnn (network=mtt, not network=msd); leave --feature-dir and --features "
        "out to have its own made"
    )


def test_extraction_says_where_it_is_without_a_terminal(capsys: Output) -> None:
    for quiet in (False, True):
        with evaluation_progress(quiet) as progress:
            for done in range(45):
                progress.on_item(done, 44, "clip")
    assert capsys.readouterr().err.splitlines() == [
        "features: 20 of 44 recordings",
        "features: 40 of 44 recordings",
    ]


def test_long_runs_say_where_they_are_without_a_terminal(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("cotrans_cli.display.evaluation.time.monotonic", lambda: now[0])
    for quiet in (False, True):
        with evaluation_progress(quiet) as progress:
            for done in (0, 1000, 2000, 3000):
                progress.on_rows("mine", "window", done, 3000)
                now[0] += 20.0
    assert capsys.readouterr().err.splitlines() == ["mine, window: 2,000 of 3,000 rows"]
