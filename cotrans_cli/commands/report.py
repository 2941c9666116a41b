"""`cotrans report`: a page of predictions that were written before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotrans_cli.display.console import note

EXAMPLES = """
Examples:

  cotrans stream talk.mp4 --fast --out talk.jsonl --top-k 10

  cotrans report talk.jsonl --media talk.mp4      writes talk.html

  cotrans report talk.jsonl --media talk.mp4 --labels truth.csv --embed --out talk-with-truth.html
"""


def report(
    predictions: Annotated[
        Path, typer.Argument(metavar="FILE.jsonl", help="What `cotrans stream --format jsonl` wrote.")
    ],
    media: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The recording that the predictions are about; one for each source."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", "--truth", metavar="FILE.csv", help="A table file,start,end,label: the truth lane."),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Put the media into the page instead of linking them.")
    ] = False,
    hide: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS", help="Do not tell of this class; may be repeated.", show_default="background only"
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Leave out segments that are shorter, as `stream --segments` does of models that say so.",
            show_default="0: the predictions do not say it",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="The page.", show_default="beside the predictions, by their name"),
    ] = None,
) -> None:
    """Write a page that plays a recording above a timeline of its predictions, to look at and to correct.

    One file without network. `cotrans stream FILE --report out.html` writes it at once, with all classes and the cost.
    """
    from pipelines.streaming.output.file_report import FileReport, report_predictions
    from pipelines.streaming.output.report_options import ReportOptions

    options = ReportOptions(out or predictions.with_suffix(".html"), embed, labels)
    path = report_predictions(FileReport(predictions, options, tuple(media or ()), tuple(hide or ()), least))
    note(f"wrote {path}")
