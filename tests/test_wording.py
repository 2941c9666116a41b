"""Pieces of messages."""

from __future__ import annotations

import pytest

from pipelines.wording import counted, did_you_mean, listed, nearest, one_line


def test_one_is_singular() -> None:
    assert [counted(number, "recording") for number in (0, 1, 2000)] == [
        "0 recordings",
        "1 recording",
        "2,000 recordings",
    ]


def test_lists_stay_short() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefgh"), most=2) == "a, b and 6 more"
    assert listed(["one is wrong", "two\nlines"], separator="; ") == "one is wrong; two lines"


def test_text_of_files_is_fit_to_be_printed() -> None:
    assert one_line("red \x1b[31m\n text") == r"red \x1b[31m text"
    assert len(one_line("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("name", "found"),
    [("gtzam", "gtzan"), ("GTZAN", "gtzan"), ("music_genre", "music-genre"), ("music", "music-genre"), ("video", None)],
)
def test_the_nearest_name(name: str, found: str | None) -> None:
    assert nearest(name, ["gtzan", "music-genre"]) == found


def test_the_end_of_a_message() -> None:
    assert did_you_mean("epoch", ["epochs"]) == "; did you mean 'epochs'?"
    assert did_you_mean("x", ["epochs"], otherwise=" (keys: epochs)") == " (keys: epochs)"
