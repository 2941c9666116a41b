"""Extraction of many recordings: the numbers, resuming, several processes, bad inputs, memory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipelines.errors import CotransError, InputError, MissingDependencyError, UsageError
from pipelines.features.extraction import ExtractionOptions, Progress, Summary, extract
from pipelines.features.feature_files import read_features
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory, StreamOptions, parse_options
from tests.features.made_recordings import sound, write_sound, write_video

ROOT = Path(__file__).parents[2]
LOGMEL = ExtractionOptions(StreamOptions("logmel"))


def options(features: str = "logmel", **changes: object) -> ExtractionOptions:
    """Options by name, whichever of the two classes they belong to."""
    own = {key: changes.pop(key) for key in ("dtype", "layout", "workers", "force") if key in changes}
    return ExtractionOptions(StreamOptions(features, **changes), **own)  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def statuses(summary: Summary) -> dict[str, str]:
    return {outcome.name: outcome.status for outcome in summary.outcomes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three short recordings, two with the same name."""
    for index, name in enumerate(("a.wav", "b.flac", "deep/a.wav")):
        write_sound(tmp_path / "in" / name, 1.5 + index / 2, seed=index)
    return tmp_path / "in"


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    summary = extract([str(folder)], tmp_path / "out", LOGMEL)
    assert statuses(summary) == {"a": "done", "b": "done", "deep/a": "done"}
    assert summary.ok
    assert [outcome.rows for outcome in summary.outcomes] == [6, 8, 10]
    assert summary.media_seconds == pytest.approx(6.0)
    read = read_features(tmp_path / "out/deep/a.npy")
    assert read.times is not None and read.manifest is not None and read.spec is not None
    np.testing.assert_allclose(read.times, 0.25 * np.arange(1, 11))
    assert read.manifest.source.path == (folder / "deep/a.wav").as_posix()
    assert read.manifest.source.size == (folder / "deep/a.wav").stat().st_size
    assert read.manifest.source.duration == pytest.approx(2.5)
    assert (read.spec.name, read.spec.width, read.spec.hop) == ("logmel", 192, 0.25)


def test_the_rows_are_those_of_the_stream(tmp_path: Path) -> None:
    """What `extract` writes is, number for number, what pushing the samples live gives."""
    path = write_sound(tmp_path / "a.wav", 3.3, rate=22050)
    summary = extract([str(path)], tmp_path / "out", options("musicnn+logmel", hop=0.2))
    assert summary.width == 256 + 192
    samples, rate = soundfile.read(path, dtype="float32")
    stream = StreamFactory(StreamOptions("musicnn+logmel", hop=0.2)).prototype()
    pieces = [stream.push_audio(samples[begin : begin + 1000], rate) for begin in range(0, len(samples), 1000)]
    np.testing.assert_array_equal(read_features(tmp_path / "out/a.npy").rows, np.concatenate([*pieces, stream.flush()]))


def test_audio_and_video_on_one_clock(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", 2.0)
    joint = extract([str(path)], tmp_path / "joint", options("mobilenet_v2+logmel", random_weights=True, fps=4))
    assert joint.random_weights
    read = read_features(tmp_path / "joint/v.npy")
    assert read.rows.shape == (8, 1280 + 192)
    assert read.spec is not None
    assert [part.weights for part in read.spec.parts] == ["random", None]
    extract([str(path)], tmp_path / "sound", options("logmel"))
    extract([str(path)], tmp_path / "pictures", options("mobilenet_v2", random_weights=True))
    np.testing.assert_array_equal(read.rows[:, 1280:], read_features(tmp_path / "sound/v.npy").rows)
    np.testing.assert_array_equal(read.rows[:, :1280], read_features(tmp_path / "pictures/v.npy").rows)


def test_every_counts_frames_of_each_file(tmp_path: Path) -> None:
    for fps in (12, 24):
        write_video(tmp_path / "in" / f"v{fps}.mp4", 1.0, fps, audio=False)
    write_sound(tmp_path / "in" / "s.wav")
    summary = extract([str(tmp_path / "in")], tmp_path / "out", options("mobilenet_v2", random_weights=True, every=6))
    assert {o.name: o.rows for o in summary.outcomes} == {"v12": 2, "v24": 4, "s": 0}
    assert summary.problems == (f"{tmp_path}/in/s.wav: has no video frames to count with --every: use --hop or --fps",)
    spec = read_features(tmp_path / "out/v24.npy").spec
    assert spec is not None
    assert spec.hop == 0.25


def test_a_second_run_skips_and_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    first = tree(out)
    modified = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = extract([str(folder)], out, LOGMEL)
    assert set(statuses(again).values()) == {"skipped"}
    assert again.ok and again.rows == 24 and again.media_seconds == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == modified
    forced = extract([str(folder)], out, options(force=True))
    assert set(statuses(forced).values()) == {"done"}
    assert tree(out) == first


def test_several_processes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    extract([str(folder)], tmp_path / "one", options("musicnn"))
    summary = extract([str(folder)], tmp_path / "two", options("musicnn", workers=2), seen.append)
    assert set(statuses(summary).values()) == {"done"}
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert seen[-1].recordings_done == seen[-1].recordings == 3
    assert seen[-1].bytes_done == pytest.approx(seen[-1].bytes_total)
    assert seen[-1].media_seconds == pytest.approx(6.0)


def test_other_settings_are_refused_and_force_replaces(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    before = tree(out)
    for changed, said in (
        (options(hop=0.2), "have a hop of 0.25, not 0.2"),
        (options(align="centre"), "have alignment causal, not centre"),
        (options("musicnn"), "have features logmel, not musicnn"),
        (options(dtype="float16"), "are float32, not float16"),
        (options(options={"n_mels": "32"}), "come from other options of logmel"),
    ):
        with pytest.raises(UsageError, match=rf"{said}.*--force.*and 2 more"):
            extract([str(folder)], out, changed)
    assert tree(out) == before
    summary = extract([str(folder)], out, options(hop=0.5, force=True))
    assert [outcome.rows for outcome in summary.outcomes] == [3, 4, 5]


def test_a_changed_source_is_extracted_again(folder: Path, tmp_path: Path) -> None:
    extract([str(folder)], tmp_path / "out", LOGMEL)
    write_sound(folder / "a.wav", 1.5, seed=9)
    assert statuses(extract([str(folder)], tmp_path / "out", LOGMEL)) == {
        "a": "done",
        "b": "skipped",
        "deep/a": "skipped",
    }


def test_another_file_of_the_same_name_does_not_replace_the_first(folder: Path, tmp_path: Path) -> None:
    extract([str(folder / "a.wav")], tmp_path / "out", LOGMEL)
    before = tree(tmp_path / "out")
    with pytest.raises(UsageError, match=r"were made from .*in/a\.wav"):
        extract([str(folder / "deep/a.wav")], tmp_path / "out", LOGMEL)
    assert tree(tmp_path / "out") == before
    summary = extract([str(folder / "a.wav"), str(folder / "deep/a.wav")], tmp_path / "both", LOGMEL)
    assert set(statuses(summary)) == {"a", "deep/a"}


def test_a_moved_source_is_not_extracted_again(folder: Path, tmp_path: Path) -> None:
    extract([str(folder)], tmp_path / "out", LOGMEL)
    moved = folder.rename(tmp_path / "elsewhere")
    assert set(statuses(extract([str(moved)], tmp_path / "out", LOGMEL)).values()) == {"skipped"}


def test_broken_outputs_are_written_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    extract([str(folder)], out, LOGMEL)
    whole = tree(out)
    (out / "a.npy").write_bytes(whole["a.npy"][:-4])
    (out / "b.json").write_text("{")
    (out / "deep/a.times.npy").unlink()
    assert set(statuses(extract([str(folder)], out, LOGMEL)).values()) == {"done"}
    assert tree(out) == whole


KILLED = """
import os, signal, sys
from pathlib import Path
from pipelines.features.extraction import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamOptions
def die(progress):
    if progress.recordings_done >= 2 and progress.media_seconds > 7:  # in the middle of a recording
        os.kill(os.getpid(), signal.SIGKILL)
options = ExtractionOptions(StreamOptions("logmel"), workers=int(sys.argv[3]))
extract([sys.argv[1]], Path(sys.argv[2]), options, die)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_and_go_on(tmp_path: Path, workers: int) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    for index in range(5):
        write_sound(source / f"{index}.wav", 3 if index < 2 else 60, seed=index)
    command = [sys.executable, "-c", KILLED, str(source), str(out), str(workers)]
    killed = subprocess.run(command, check=False, cwd=ROOT)
    assert killed.returncode == -9
    left = tree(out)
    assert sum(name.endswith(".json") for name in left) in (2, 3)
    assert any(name.endswith(".part") for name in left) or workers > 1
    # Whatever has its final name is whole, and belongs to its manifest.
    undisturbed = extract([str(source)], tmp_path / "undisturbed", LOGMEL)
    expected = tree(tmp_path / "undisturbed")
    assert all(content == expected[name] for name, content in left.items() if not name.startswith("."))
    summary = extract([str(source)], out, options(workers=workers))
    assert summary.ok and summary.rows == undisturbed.rows
    assert sum(outcome.status == "skipped" for outcome in summary.outcomes) >= 2
    assert tree(out) == expected


def test_two_runs_at_once_share_the_work(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for index in range(6):
        write_sound(source / f"{index}.wav", 20, seed=index)
    script = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "pass")
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "out"), "1"]
    runs = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    extract([str(source)], tmp_path / "undisturbed", LOGMEL)
    assert tree(tmp_path / "out") == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_leaves_no_half_files(tmp_path: Path, workers: int) -> None:
    """Ctrl-C in the middle of recordings, in this process or while the workers are at it."""

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    for index in range(3):
        write_sound(tmp_path / "in" / f"{index}.wav", 120, seed=index)
    with pytest.raises(KeyboardInterrupt):
        extract([str(tmp_path / "in")], tmp_path / "out", options("musicnn", workers=workers), interrupt)
    assert not [name for name in tree(tmp_path / "out") if not name.endswith(("npy", "json"))]


def test_a_name_that_is_too_long_is_one_line(folder: Path, tmp_path: Path) -> None:
    write_sound(folder / f"{'x' * 250}.wav")
    summary = extract([str(folder)], tmp_path / "out", LOGMEL)
    assert summary.count("done") == 3
    assert summary.count("failed") == 1
    assert "File name too long" in summary.problems[0]


def test_layouts(tmp_path: Path) -> None:
    path = write_video(tmp_path / "in/video_test_1.mp4", 1.0)
    run = {"random_weights": True, "hop": 0.25}
    extract([str(path.parent)], tmp_path / "npy", options("mobilenet_v2+logmel", **run))
    rows = np.array(read_features(tmp_path / "npy/video_test_1.npy").rows)
    extract([str(path.parent)], tmp_path / "lstr", options("mobilenet_v2+logmel", layout="lstr", **run))
    np.testing.assert_array_equal(np.load(tmp_path / "lstr/rgb_random_mobilenet_v2/video_test_1.npy"), rows[:, :1280])
    np.testing.assert_array_equal(np.load(tmp_path / "lstr/audio_logmel/video_test_1.npy"), rows[:, 1280:])
    later = extract([str(path.parent)], tmp_path / "lstr", options("musicnn", layout="lstr"))  # joins the others
    assert statuses(later) == {"video_test_1": "done"}
    assert np.load(tmp_path / "lstr/audio_msd_musicnn/video_test_1.npy").shape == (4, 256)
    extract([str(path.parent)], tmp_path / "vf", options("mobilenet_v2+logmel", layout="video_features", **run))
    np.testing.assert_array_equal(np.load(tmp_path / "vf/video_test_1_mobilenet_v2.npy"), rows[:, :1280])
    np.testing.assert_array_equal(np.load(tmp_path / "vf/video_test_1_timestamps_ms.npy"), [250, 500, 750, 1000])
    write_video(tmp_path / "in/video_test_2.mp4", 0.5, seed=1)
    summary = extract([str(path.parent)], tmp_path / "oadtr", options("mobilenet_v2+logmel", layout="oadtr", **run))
    assert summary.files == ("features.pickle",)
    loaded = pickle.loads((tmp_path / "oadtr/features.pickle").read_bytes())
    assert list(loaded) == ["video_test_1", "video_test_2"]
    np.testing.assert_array_equal(loaded["video_test_1"]["rgb"], rows[:, :1280])
    np.testing.assert_array_equal(loaded["video_test_1"]["audio"], rows[:, 1280:])


def test_damaged_recordings_keep_what_could_be_decoded(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "in/a.wav", 4.0)
    path.write_bytes(path.read_bytes()[:70_000])
    for _ in range(2):  # it is said again when there is nothing left to do
        summary = extract([str(path)], tmp_path / "out", LOGMEL)
        assert statuses(summary) == {"a": "damaged"}
        assert summary.outcomes[0].rows == 8
        assert not summary.ok
        assert "ends in the middle" in summary.problems[0]
    manifest = read_features(tmp_path / "out/a.npy").manifest
    assert manifest is not None
    assert manifest.notes


def damaged_files(folder: Path) -> int:
    """A hundred files with something wrong with each."""
    generator = np.random.default_rng(8)
    folder.mkdir()
    good = {suffix: write_sound(folder / f"good.{suffix}", 3.0) for suffix in ("wav", "flac", "ogg", "mp3")} | {
        suffix: write_video(folder / f"good.{suffix}", 3.0) for suffix in ("mp4", "mkv", "avi")
    }
    contents = {suffix: path.read_bytes() for suffix, path in good.items()}
    for path in good.values():
        path.unlink()
    suffixes = list(contents)
    for index in range(100):
        suffix = suffixes[index % len(suffixes)]
        content = bytearray(contents[suffix])
        kind = index % 10
        if kind < 3:  # truncated: early, in the middle, late
            content = content[: int(len(content) * (0.01, 0.4, 0.7)[kind])]
        elif kind == 3:
            content = bytearray(generator.bytes(5000))
        elif kind == 4:
            content = bytearray()
        elif kind == 5:  # a wrong suffix on something that is no media at all
            content = bytearray(b"<html><body>404 Not Found</body></html>" * 20)
        elif kind == 6:  # audio without samples
            suffix = ("wav", "flac")[index // 10 % 2]
            soundfile.write(folder / "none", np.zeros(0, np.float32), 16000, format=suffix.upper())
            content = bytearray((folder / "none").read_bytes())
            (folder / "none").unlink()
        elif kind == 7:  # video without frames
            content = bytearray(write_video(folder / "none.mp4", 0.0, audio=False).read_bytes())
            suffix = "mp4"
            (folder / "none.mp4").unlink()
        elif suffix == "wav":  # noise and silence are good samples: cut this one too
            content = content[: len(content) // 2]
        elif kind == 8:  # a good beginning, then noise
            content[len(content) // 3 :] = generator.bytes(len(content) - len(content) // 3)
        else:  # only the header, then zeros
            content[200:] = bytes(len(content) - 200)
        (folder / f"{index:03}.{suffix}").write_bytes(content)
    return 100


@pytest.mark.parametrize("features", ["logmel", "mobilenet_v2"])
def test_a_hundred_damaged_files(tmp_path: Path, features: str, capfd: pytest.CaptureFixture[str]) -> None:
    count = damaged_files(tmp_path / "in")
    write_video(tmp_path / "in/good.mp4", 1.0)
    chosen = options(features, random_weights=True, hop=0.5)
    summary = extract([str(tmp_path / "in")], tmp_path / "out", chosen)
    found = statuses(summary)
    assert len(found) == count + 1
    assert found.pop("good") == "done"
    assert len(summary.problems) == sum(status in ("failed", "damaged") for status in found.values())
    for outcome in summary.outcomes:
        if outcome.name == "good":
            continue
        assert outcome.status in ("failed", "damaged"), outcome
        if outcome.message:
            assert outcome.source in outcome.message
            assert "\n" not in outcome.message
            assert "unexpected" not in outcome.message
    assert not any(name.endswith((".part", ".lock")) for name in tree(tmp_path / "out"))
    assert capfd.readouterr().out == ""


def test_no_audio_track_is_one_line(tmp_path: Path) -> None:
    path = write_video(tmp_path / "silent.mp4", 1.0, audio=False)
    assert extract([str(path)], tmp_path / "out", LOGMEL).problems == (f"{path}: has no audio track",)


def test_a_full_disk_stops_the_run(folder: Path, tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
from pipelines.errors import CotransError
from pipelines.features.extraction import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamOptions
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    extract([sys.argv[1]], Path(sys.argv[2]), ExtractionOptions(StreamOptions("logmel")))
except CotransError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == f"the disk is full: cannot go on writing to {tmp_path}/out\n"
    assert tree(tmp_path / "out") == {}


MEASURED = """
import resource, sys
from pathlib import Path
from pipelines.features.extraction import extract, ExtractionOptions
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamOptions
options = StreamOptions("logmel", hop=0.5, options={"sample_rate": 8000})
summary = extract([sys.argv[1]], Path(sys.argv[2]), ExtractionOptions(options))
assert summary.ok, summary.problems
print(summary.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """Two hours need no more than 100 MB above what two minutes need."""
    rate, peaks = 8000, {}
    minute = sound(60, rate)
    for name, minutes in (("short", 2), ("long", 120)):
        with soundfile.SoundFile(tmp_path / f"{name}.flac", "w", rate, 1, "PCM_16") as file:
            for _ in range(minutes):
                file.write(minute)
        command = [sys.executable, "-c", MEASURED, str(tmp_path / f"{name}.flac"), str(tmp_path / "out")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        rows, peak = done.stdout.split()
        assert int(rows) == minutes * 120
        peaks[name] = float(peak)
    assert peaks["long"] - peaks["short"] < 100, peaks


def test_missing_weights_and_wrong_settings_are_said_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    for changed, kind, said in (
        (options("vggish"), MissingDependencyError, "cotrans weights get vggish-audioset"),
        (options("resnet50"), MissingDependencyError, "cotrans weights get resnet50-imagenet"),
        (options("vggish", options={"postprocess": "true"}), MissingDependencyError, "vggish-audioset-pca"),
        (options("vggish", weights=("absent.pth",)), InputError, "there is no file absent.pth"),
        (options("vggish", weights=("absent",)), UsageError, "neither a file nor a name"),
        (options("logmel", layout="h5"), UsageError, "unknown layout"),
        (options("logmel", dtype="int8"), UsageError, "unknown dtype"),
        (options("logmel", workers=0), UsageError, "at least 1"),
        (options("logmel", options={"colour": "red"}), UsageError, "no extractor of logmel has an option 'colour'"),
        (options("nothing"), UsageError, "there is no extractor 'nothing'"),
        (options("mobilenet_v2", random_weights=True, device="tpu"), UsageError, "unknown device 'tpu'"),
    ):
        with pytest.raises(kind, match=said):
            extract([str(folder)], tmp_path / "out", changed)
    assert not (tmp_path / "out").exists()
    for arguments, said in (
        ({"features": "logmel+"}, "does not name features"),
        ({"features": "logmel+logmel"}, "twice"),
        ({"features": "logmel", "hop": 0.2, "fps": 5.0}, "give one of them"),
        ({"features": "logmel", "hop": 0.0}, "--hop must be positive"),
        ({"features": "vggish", "weights": ("a",), "random_weights": True}, "exclude each other"),
    ):
        with pytest.raises(UsageError, match=said):
            StreamOptions(**arguments)  # type: ignore[arg-type]


def test_options_and_weights_reach_their_extractor(tmp_path: Path) -> None:
    streams = StreamFactory(StreamOptions("musicnn+logmel", options=parse_options(["output=tags", "logmel.n_mels=8"])))
    assert [part.width for part in streams.prototype().spec.parts] == [50, 24]
    shipped = ROOT / "weights/musicnn_mtt_vgg.safetensors"
    for given in ("musicnn-mtt", str(shipped), f"musicnn={shipped}"):
        part = StreamFactory(StreamOptions("musicnn+logmel", weights=(given,))).prototype().spec.parts[0]
        assert part.weights is not None
        assert part.weights.startswith("bb391b0a")
    with pytest.raises(UsageError, match="say for which of musicnn, vggish"):
        StreamFactory(StreamOptions("musicnn+vggish", weights=("x.pth",))).prototype()
    for text in ("n_mels", "=8"):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_options([text])
    with pytest.raises(UsageError, match="twice"):
        parse_options(["a=1", "a=2"])


def test_a_specification_gives_back_its_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a feature file or a checkpoint is enough to compute the same rows again."""
    path = write_video(tmp_path / "v.mp4", 1.0)
    text = ["n_mels=8", "mobilenet_v2.frame=last", "network=msd+mtt"]
    chosen = options("mobilenet_v2+musicnn+logmel", options=parse_options(text), random_weights=True, fps=5)
    for changed in (chosen, options("musicnn", weights=("musicnn-mtt",), options={"network": "mtt"})):
        extract([str(path)], tmp_path / changed.streams.features, changed)
        read = read_features(tmp_path / changed.streams.features / "v.npy")
        assert read.spec is not None
        again = StreamFactory.for_spec(FeatureSpec.from_dict(read.spec.to_dict()))
        assert again.prototype().spec == read.spec
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    part = read.spec.parts[0]
    for weights, given, said in (
        ("ab" * 32, (), "give the file with --weights musicnn=FILE"),
        ("ab" * 32, ("musicnn-mtt",), "come from other weights of musicnn"),
    ):
        spec = FeatureSpec((replace(part, weights=weights),), 0.25)
        with pytest.raises(CotransError, match=said):
            StreamFactory.for_spec(spec, given)
    kinetics = StreamFactory(StreamOptions("resnet50", random_weights=True)).prototype().spec.parts[0]
    with pytest.raises(MissingDependencyError, match="cotrans weights get tsn-resnet50-kinetics400"):
        StreamFactory.for_spec(FeatureSpec((replace(kinetics, weights="2692d16c" * 8),), 0.25))


def test_an_onnx_network(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        "means",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 32, 32])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])],
        [onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [2], [2, 3])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "means+colour.onnx")
    path = write_video(tmp_path / "v.mp4", 1.0)
    features = f"onnx:{tmp_path}/means+colour.onnx+logmel"
    summary = extract([str(path)], tmp_path / "out", options(features, layout="lstr", options={"scale": "unit"}))
    assert summary.ok and summary.width == 3 + 192
    rows = np.load(tmp_path / "out/rgb_means+colour/v.npy")
    assert rows.shape == (4, 3)
    assert ((rows > 0.3) & (rows < 0.7)).all()  # means of a random picture


def test_names_that_would_share_a_file_are_refused(tmp_path: Path) -> None:
    write_sound(tmp_path / "in/a.wav")
    write_sound(tmp_path / "in/a.times.wav")
    with pytest.raises(UsageError, match=r"would both be written to .*a\.times\.npy"):
        extract([str(tmp_path / "in")], tmp_path / "out", LOGMEL)


def test_an_output_folder_that_takes_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        extract([str(folder)], tmp_path / "file", LOGMEL)
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "shut").mkdir(mode=0o500)
        with pytest.raises(Exception, match="cannot write to"):
            extract([str(folder)], tmp_path / "shut", LOGMEL)
