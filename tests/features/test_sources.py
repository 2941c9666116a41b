"""Which recordings a command line names, and what their outputs are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import InputError, UsageError
from pipelines.features.extraction.sources import find_recordings


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("one/a.wav", "one/deep/a.wav", "two/a.wav", "two/a.mp4", "two/.hidden.wav", "two/notes.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*sources: str) -> dict[str, str]:
    return {recording.name: recording.path.as_posix() for recording in find_recordings(sources).recordings}


def test_a_folder_is_mirrored(tree: Path) -> None:
    assert names("one") == {"a": "one/a.wav", "deep/a": "one/deep/a.wav"}
    assert names(str(tree / "one")).keys() == {"a", "deep/a"}
    assert names("one/.", "one") == names("one/.")


def test_suffixes_stay_where_they_tell_files_apart(tree: Path) -> None:
    recordings = find_recordings(["two"])
    assert {recording.name for recording in recordings.recordings} == {"a.wav", "a.mp4"}
    assert recordings.ignored == 1


def test_files_with_one_name_from_several_folders(tree: Path) -> None:
    assert names("one/a.wav", "two/a.wav") == {"one/a": "one/a.wav", "two/a": "two/a.wav"}
    assert names("one", "two").keys() == {"one/a", "deep/a", "two/a.wav", "two/a.mp4"}
    assert names("two/a.wav") == {"a": "two/a.wav"}
    assert names("one/../two/a.wav", "one/a.wav").keys() == {"one/a", "two/a"}


def test_globs(tree: Path) -> None:
    assert names("*/a.wav").keys() == {"one/a", "two/a"}
    assert names("one/**/*.wav").keys() == {"a", "deep/a"}
    assert names(f"{tree}/one/*.wav").keys() == {"a"}
    with pytest.raises(InputError, match="no file matches"):
        find_recordings(["one/*.flac"])


def test_a_name_with_brackets_is_a_file_first(tree: Path) -> None:
    (tree / "[live].wav").write_bytes(b"x")
    assert names("[live].wav") == {"[live]": "[live].wav"}


def test_lists(tree: Path) -> None:
    (tree / "one" / "list.txt").write_text(f"# talks\n\na.wav\n../two/a.wav\n{tree}/one/deep/a.wav\nabsent.wav\n")
    recordings = find_recordings(["one/list.txt"])
    assert {recording.name for recording in recordings.recordings} == {"one/a", "two/a", "one/deep/a"}
    assert recordings.missing == ("absent.wav (in one/list.txt)",)
    (tree / "one" / "list.txt").write_text("a.wav\n", encoding="utf-8-sig")  # as Windows writes it
    assert names("one/list.txt") == {"a": "one/a.wav"}


def test_a_file_that_is_named_twice_is_extracted_once(tree: Path) -> None:
    (tree / "link.wav").symlink_to(tree / "one" / "a.wav")
    assert names("one/a.wav", "one", "./one/a.wav", "link.wav").keys() == {"a", "deep/a"}


def test_no_name_leaves_the_output_folder(tree: Path) -> None:
    for sources in (["one/../two/a.wav"], ["two/../one"], ["one/../*/a.wav"]):
        for recording in find_recordings(sources).recordings:
            assert ".." not in Path(recording.name).parts
            assert not Path(recording.name).is_absolute()


def test_what_is_not_there(tree: Path) -> None:
    assert find_recordings(["absent.wav"]).missing == ("absent.wav",)
    (tree / "empty").mkdir()
    with pytest.raises(InputError, match="no audio or video file in this folder"):
        find_recordings(["empty"])
    with pytest.raises(UsageError, match="no source"):
        find_recordings([])
