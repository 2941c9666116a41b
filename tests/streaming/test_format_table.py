"""Output formats are declared once: everything that speaks of them agrees with the table."""

from __future__ import annotations

import inspect
from typing import Annotated, get_args, get_origin, get_type_hints

from cotrans_cli.arguments.completion import _formats
from cotrans_cli.commands import stream
from pipelines.streaming.output.formats import DEFAULT, FORMATS, SUBTITLES, SUFFIXES


def test_help_names_every_format() -> None:
    hint = get_type_hints(stream.stream, include_extras=True)["format"]
    assert get_origin(hint) is Annotated
    text = next(item.help for item in get_args(hint)[1:] if hasattr(item, "help"))
    for name in FORMATS:
        assert name in text
    assert inspect.signature(stream.stream).parameters["format"].default is None


def test_completion_offers_them() -> None:
    assert list(_formats()) == list(FORMATS)


def test_suffixes_tell_formats_apart() -> None:
    assert len(SUFFIXES) == len(FORMATS)
    assert DEFAULT == "table"
    assert SUBTITLES == ("srt", "vtt")
