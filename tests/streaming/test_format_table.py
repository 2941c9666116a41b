"""Output formats are declared once: everything that speaks of them agrees with the table."""

from __future__ import annotations

import inspect

import pytest

from cotrans_cli.arguments.completion import _formats
from cotrans_cli.commands import stream
from cotrans_cli.main import run
from pipelines.streaming.output import formats
from pipelines.streaming.output.formats import DEFAULT, FORMATS, SUBTITLES, SUFFIXES


def test_help_names_every_format(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setitem(formats.FORMATS, "new-format", FORMATS["csv"])
    assert run(["stream", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{', '.join(FORMATS)}." in shown and "new-format" in FORMATS
    assert inspect.signature(stream.stream).parameters["format"].default is None


def test_completion_offers_them() -> None:
    assert list(_formats()) == list(FORMATS)


def test_suffixes_tell_formats_apart() -> None:
    assert len(SUFFIXES) == len(FORMATS)
    assert DEFAULT == "table"
    assert SUBTITLES == ("srt", "vtt")
