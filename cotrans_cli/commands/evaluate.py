"""`cotrans evaluate`: how good predictions are, by the rules of the dataset's papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotrans_cli.console import note, print_json, print_line, result_console

if TYPE_CHECKING:
    from pipelines.evaluation.report import Table
    from pipelines.evaluation.scoring import Evaluation

EXAMPLES = """
Examples:

  cotrans evaluate --dataset thumos14 --predictions scores.npz

  cotrans evaluate --dataset thumos14 --predictions scores.npz --protocol oadtr --json

  cotrans evaluate --dataset thumos14 --predictions scores.npz --plot confusion.png
"""


def evaluate(
    dataset: Annotated[str, typer.Option("--dataset", help="gtzan, thumos14, tvseries or folder.")],
    predictions: Annotated[
        Path,
        typer.Option(
            "--predictions",
            metavar="FILE.npz",
            help="Scores that a program made: arrays scores (frames, classes), label and video (frames,); "
            "optionally classes (names) and anticipation (frames, horizons, classes).",
        ),
    ],
    protocol: Annotated[
        str | None,
        typer.Option(
            help="thumos14: lstr (every frame, default) or oadtr (without the ends of videos). tvseries: these and "
            "cooadtr (the authors' 20 classes)."
        ),
    ] = None,
    window: Annotated[int, typer.Option(help="n: oadtr and cooadtr leave the first n − 1 frames of a video out.")] = 64,
    future: Annotated[int, typer.Option(help="f: oadtr and cooadtr leave the last f + 1 frames of a video out.")] = 8,
    smooth: Annotated[
        str,
        typer.Option(
            help="Maximum over 5 frames: off, video (within videos) or pooled (across them, as the official script)."
        ),
    ] = "off",
    cliff_diving: Annotated[
        bool, typer.Option("--cliff-diving-as-diving", help="thumos14: count cliff diving as diving too.")
    ] = False,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples of the videos for the 95 % interval; 0: no interval.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: fractions, stable keys.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the table per class as CSV: fractions.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables: percent.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the confusion matrix (.png, .svg or .pdf).")
    ] = None,
) -> None:
    """Score predictions as the papers do: mAP, calibrated mAP, accuracy, per class, with intervals."""
    from pipelines.evaluation.detection import DetectionOptions
    from pipelines.evaluation.predictions import read_predictions
    from pipelines.evaluation.report import to_csv, to_markdown
    from pipelines.evaluation.scoring import score_predictions, write_confusion
    from pipelines.evaluation.smoothing import as_smoothing
    from pipelines.reports.plots import check_plot_path

    if json + csv + markdown > 1:
        raise typer.BadParameter("choose one of --json, --csv and --markdown")
    if plot is not None:
        check_plot_path(plot)
    options = DetectionOptions(
        window=window,
        future=future,
        smoothing=as_smoothing(smooth),
        cliff_diving_is_diving=cliff_diving,
        bootstrap=bootstrap,
        seed=seed,
    )
    frames = read_predictions(predictions)
    evaluation = score_predictions(frames, dataset, protocol, options)
    if json:
        print_json(evaluation.to_dict())
    elif csv:
        print_line(to_csv(evaluation.tables()[0][1]).rstrip("\n"))
    elif markdown:
        print_line(evaluation.headline())
        for title, table in evaluation.tables():
            print_line(f"\n{title}\n\n{to_markdown(table)}".rstrip("\n"))
    else:
        _show(evaluation)
    if not json:
        for line in evaluation.notes:
            note(f"note: {line}")
    if plot is not None:
        write_confusion(plot, frames, evaluation, options)
        note(f"wrote {plot}")


def _show(evaluation: Evaluation) -> None:
    for title, table in evaluation.tables():
        result_console().print(_rich_table(title, table))
    print_line(evaluation.headline())


def _rich_table(title: str, table: Table) -> object:
    from rich import box
    from rich.table import Table as RichTable

    from pipelines.evaluation.report import format_cell

    shown = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for index, name in enumerate(table.columns):
        shown.add_column(name, justify="left" if index == 0 else "right")
    for number, row in enumerate(table.rows):
        last = number == len(table.rows) - 1 and row[0] in ("mean", "all")
        shown.add_row(*map(format_cell, row), style="bold" if last else None)
    return shown
