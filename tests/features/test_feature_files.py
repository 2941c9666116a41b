"""Feature files: what is written is what is read, in every layout, all or nothing."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import InputError, UsageError
from pipelines.features.files.feature_files import (
    Manifest,
    Source,
    describe_source,
    is_complete,
    read_features,
    read_manifest,
    write_features,
    write_manifest,
)
from pipelines.features.files.layout import TargetFiles, target_files
from pipelines.features.files.npy_writer import HEADER, Dtype, NpyWriter
from pipelines.features.files.oadtr_pickle import write_oadtr_pickle
from pipelines.features.spec import ExtractorSpec, FeatureSpec

RGB = ExtractorSpec("resnet50", "video", 4, 0.0, weights="ab" * 32)
FLOW = ExtractorSpec("resnet50-flow", "video", 2, 0.2, {"method": "dis"}, "random")
SOUND = ExtractorSpec("vggish", "audio", 3, 1.0, {"output": "embedding"}, "cd" * 32)
SPEC = FeatureSpec((RGB, FLOW, SOUND), hop=0.25)
SOURCE = Source("talks/a.mp4", 12345, "0" * 32, 2.0)
ROWS = np.random.default_rng(1).standard_normal((7, 9)).astype(np.float32)
TIMES = np.arange(1, 8) * 0.25


def tag_of(sha256: str) -> str | None:
    return "kinetics" if sha256.startswith("ab") else None


def write(folder: Path, layout: str = "npy", name: str = "talks/a", dtype: Dtype = "float32") -> TargetFiles:
    files = target_files(layout, folder, name, SPEC, tag_of)
    with write_features(files, SPEC, dtype) as writer:
        for begin in range(0, len(ROWS), 3):
            writer.append(ROWS[begin : begin + 3], TIMES[begin : begin + 3])
    write_manifest(files, Manifest(SPEC, SOURCE, len(ROWS), dtype, layout, ("a note",)))
    return files


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    files = write(tmp_path)
    read = read_features(tmp_path / "talks/a.npy")
    assert isinstance(read.rows, np.memmap)
    np.testing.assert_array_equal(read.rows, ROWS)
    assert read.times is not None
    np.testing.assert_array_equal(read.times, TIMES)
    assert read.spec == SPEC
    assert read.manifest == Manifest(SPEC, SOURCE, 7, "float32", "npy", ("a note",))
    assert is_complete(files, read.manifest)
    assert names(tmp_path) == ["talks/a.json", "talks/a.npy", "talks/a.times.npy"]
    assert json.loads((tmp_path / "talks/a.json").read_text())["complete"] is True


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for layout in ("npy", "lstr", "oadtr", "video_features"):
        one, two = tmp_path / layout / "1", tmp_path / layout / "2"
        write(one, layout)
        write(two, layout)
        assert names(one) == names(two)
        assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names(one))


def test_half_precision(tmp_path: Path) -> None:
    write(tmp_path, dtype="float16")
    read = read_features(tmp_path / "talks/a.npy")
    np.testing.assert_array_equal(read.rows, ROWS.astype(np.float16))
    files = target_files("npy", tmp_path, "b", SPEC, tag_of)
    with (
        pytest.raises(InputError, match="do not fit float16: use float32"),
        write_features(files, SPEC, "float16") as w,
    ):
        w.append(ROWS * 1e6, TIMES)
    assert not files.rows[0].path.exists()


def test_rows_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    files = target_files("npy", tmp_path, "b", SPEC, tag_of)
    with pytest.raises(InputError, match="NaN or infinity"), write_features(files, SPEC, "float32") as writer:
        writer.append(ROWS * np.nan, TIMES)
    assert names(tmp_path) == []


def test_the_lstr_layout(tmp_path: Path) -> None:
    write(tmp_path, "lstr", "video_1")
    assert names(tmp_path) == [
        "audio_vggish/video_1.npy",
        "flow_random_resnet50/video_1.npy",
        "manifests/rgb_kinetics_resnet50+flow_random_resnet50+audio_vggish/video_1.json",
        "manifests/rgb_kinetics_resnet50+flow_random_resnet50+audio_vggish/video_1.times.npy",
        "rgb_kinetics_resnet50/video_1.npy",
    ]
    np.testing.assert_array_equal(np.load(tmp_path / "rgb_kinetics_resnet50/video_1.npy"), ROWS[:, :4])
    np.testing.assert_array_equal(np.load(tmp_path / "flow_random_resnet50/video_1.npy"), ROWS[:, 4:6])
    np.testing.assert_array_equal(np.load(tmp_path / "audio_vggish/video_1.npy"), ROWS[:, 6:])
    np.testing.assert_array_equal(np.load(next(tmp_path.glob("manifests/*/video_1.times.npy"))), TIMES)
    bare = read_features(tmp_path / "rgb_kinetics_resnet50/video_1.npy")
    assert bare.times is None
    assert bare.spec is None


def test_the_video_features_layout(tmp_path: Path) -> None:
    write(tmp_path, "video_features", "v")
    np.testing.assert_array_equal(np.load(tmp_path / "v_resnet.npy"), ROWS[:, :4])
    np.testing.assert_array_equal(np.load(tmp_path / "v_flow.npy"), ROWS[:, 4:6])
    np.testing.assert_array_equal(np.load(tmp_path / "v_vggish.npy"), ROWS[:, 6:])
    np.testing.assert_array_equal(np.load(tmp_path / "v_timestamps_ms.npy"), TIMES * 1000)
    assert np.load(tmp_path / "v_fps.npy") == 4.0


def test_a_layout_with_one_place_refuses_two_features(tmp_path: Path) -> None:
    twice = FeatureSpec((RGB, ExtractorSpec("mobilenet_v2", "video", 1, 0.0)), 0.25)
    with pytest.raises(UsageError, match="one place for 'rgb'"):
        target_files("oadtr", tmp_path, "a", twice, tag_of)
    with pytest.raises(UsageError, match="unknown layout 'h5'"):
        target_files("h5", tmp_path, "a", SPEC, tag_of)


def test_the_oadtr_pickle_is_what_its_loader_expects(tmp_path: Path) -> None:
    path = tmp_path / "features.pickle"
    videos = {
        f"video_{i}": {"rgb": ROWS[: i + 1] * i, "flow": ROWS[: i + 1, :2], "audio": ROWS[: i + 1, 2:]}
        for i in range(3)
    }
    assert write_oadtr_pickle(path, videos.items()) == 3
    with path.open("rb") as file:
        loaded = pickle.load(file)
    assert list(loaded) == list(videos)
    for name, features in videos.items():
        assert list(loaded[name]) == ["rgb", "flow", "audio"]
        for key, value in features.items():
            assert type(loaded[name][key]) is np.ndarray
            np.testing.assert_array_equal(loaded[name][key], value)
    assert b"numpy._core" not in path.read_bytes()  # numpy 1 does not know that module
    assert write_oadtr_pickle(path, []) == 0
    assert pickle.loads(path.read_bytes()) == {}


def test_the_oadtr_pickle_holds_one_video_in_memory(tmp_path: Path) -> None:
    """20 videos of 10 MB each through a process that may not grow by more than 60 MB."""
    script = f"""
import resource, numpy as np
from pathlib import Path
from pipelines.features.files.oadtr_pickle import write_oadtr_pickle
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
videos = ((str(i), {{"rgb": np.ones((2500, 1000), np.float32)}}) for i in range(20))
write_oadtr_pickle(Path({str(tmp_path / "f.pickle")!r}), videos)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert float(done.stdout) < 60
    assert (tmp_path / "f.pickle").stat().st_size > 200e6


def test_a_block_that_fails_leaves_the_old_files(tmp_path: Path) -> None:
    files = write(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    with pytest.raises(RuntimeError), write_features(files, SPEC, "float32") as writer:
        writer.append(ROWS, TIMES)
        raise RuntimeError
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_files_are_complete_only_in_full_length(tmp_path: Path) -> None:
    for layout in ("npy", "lstr", "video_features"):
        files = write(tmp_path / layout, layout)
        manifest = read_manifest(files.manifest)
        for path in files.paths[:-1]:
            content = path.read_bytes()
            if path != files.rate:
                path.write_bytes(content[:-1])
                assert not is_complete(files, manifest)
            path.unlink()
            assert not is_complete(files, manifest)
            path.write_bytes(content)
            assert is_complete(files, manifest)


def test_bare_files_of_other_people(tmp_path: Path) -> None:
    path = tmp_path / "bare.npy"
    np.save(path, ROWS)
    (tmp_path / "bare.json").write_text('{"labels": [1, 2]}')
    read = read_features(path)
    np.testing.assert_array_equal(read.rows, ROWS)
    assert (read.times, read.spec, read.manifest) == (None, None, None)
    np.save(path, np.asfortranarray(ROWS.astype(np.float64)))
    np.testing.assert_array_equal(read_features(path).rows, ROWS)
    np.save(path, np.zeros((0, 5), np.float32))
    assert read_features(path).rows.shape == (0, 5)


def test_files_that_are_not_features_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for content in (b"", b"nonsense", np.random.default_rng(0).bytes(500)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.npy"):
            read_features(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes(b"PK\x03\x04 and no archive")
    with pytest.raises(InputError, match="cannot read"):
        read_features(tmp_path / "cut.npy")
    with pytest.raises(InputError, match="plain numbers"):
        read_features(path)
    for array in (np.zeros(5), np.zeros((2, 3), np.int64)):
        np.save(path, array)
        with pytest.raises(InputError, match="not rows of floating-point features"):
            read_features(path)
    np.save(path, ROWS)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError):
        read_features(path)
    with pytest.raises(InputError, match="there is no file absent"):
        read_features(tmp_path / "absent.npy")
    np.savez(tmp_path / "z.npz", ROWS)
    with pytest.raises(InputError, match="npz"):
        read_features(tmp_path / "z.npz")


def test_damaged_manifests_are_one_line(tmp_path: Path) -> None:
    files = write(tmp_path)
    text = files.manifest.read_text()
    for change, said in (
        (text.replace('"version": 1', '"version": 9'), "version 9"),
        (text.replace('"rows": 7', '"rows": "many"'), "damaged"),
        (text.replace('"hop"', '"hope"'), "damaged"),
        (text.replace('"dtype": "float32"', '"dtype": "float7"'), "damaged"),
        (text.replace('"layout": "npy"', '"layout": "npz"'), "there is no layout 'npz'"),
        (text[:-40], "not a feature manifest"),
        (text.replace('"rows": 7', '"rows": 8'), "extract it again"),
    ):
        files.manifest.write_text(change)
        with pytest.raises(InputError, match=said):
            read_features(files.rows[0].path)


def test_the_fingerprint_sees_both_ends_and_the_size(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    content = bytearray(300_000)
    path.write_bytes(content)
    first = describe_source(path)
    assert first == describe_source(path)
    for position in (0, len(content) - 1):
        changed = content.copy()
        changed[position] = 1
        path.write_bytes(changed)
        assert describe_source(path).fingerprint != first.fingerprint
    path.write_bytes(content + b"\0")
    assert describe_source(path).fingerprint != first.fingerprint
    with pytest.raises(InputError, match="cannot read"):
        describe_source(tmp_path / "absent.wav")


@settings(max_examples=25, deadline=None)
@given(
    pieces=st.lists(st.integers(0, 5), max_size=6),
    width=st.one_of(st.none(), st.integers(1, 9000)),
    dtype=st.sampled_from(["float32", "float16", "float64"]),
)
def test_npy_files_in_pieces(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[int], width: int | None, dtype: Dtype
) -> None:
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((k,) if width is None else (k, width)).astype(dtype) for k in pieces]
    with NpyWriter(path, width, dtype) as writer:
        for array in arrays:
            writer.append(array)
    whole = np.concatenate(arrays) if arrays else np.zeros((0,) if width is None else (0, width), dtype)
    np.testing.assert_array_equal(np.load(path), whole)
    assert np.load(path).dtype == dtype
    assert path.stat().st_size == HEADER + whole.nbytes
