"""`cotrans data`: fetching datasets and looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotrans_cli.arguments import dataset_options as options
from cotrans_cli.display.columns import wrapped
from cotrans_cli.display.console import note, print_json, print_line, result_console, status_console
from cotrans_cli.display.download_progress import download_progress

if TYPE_CHECKING:
    from pipelines.datasets.dataset import Dataset
    from pipelines.datasets.report import DatasetReport

app = typer.Typer(no_args_is_help=True, help="Fetch datasets and look at them.")

EXAMPLES = """
Examples:

  cotrans data list      what can be fetched

  cotrans data get digits --root digits/

  cotrans data inspect --dataset gtzan --root GTZAN/ --split fault-filtered

  cotrans data inspect --dataset thumos14 --root THUMOS14/ --feature-set kin

  cotrans data inspect clips/ --validation 0.2 --json
"""
LIST_EXAMPLES = """
Examples:

  cotrans data list
"""
GET_EXAMPLES = """
Examples:

  cotrans data get gtzan --root GTZAN/

  cotrans data get digits --root digits/
"""


@app.callback()
def data() -> None:
    """Fetch datasets and look at them."""


@app.command("inspect", epilog=EXAMPLES)
@options.with_dataset_options
def inspect(
    *,
    path: options.Folder = None,
    dataset: options.MaybeName = None,
    root: options.Root = None,
    dataset_options: options.Given,
    decode: Annotated[
        bool, typer.Option("--decode", help="Read all media and features, to find damage that the headers do not show.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what is in a dataset: clips, classes, hours, frames per class, splits and problems."""
    from pipelines.datasets.opening import MODULES, open_dataset
    from pipelines.errors import UsageError
    from pipelines.wording import alternatives

    dataset, root = options.named_data(path, dataset, root)
    if dataset is None:
        raise UsageError(
            "which recordings? Name their folder, as in `cotrans data inspect clips/`, or a dataset with --dataset: "
            f"{alternatives([*MODULES])}"
        )
    opened = open_dataset(dataset, root, **dataset_options)
    report = _described(opened, decode)
    if json:
        print_json(report.to_dict())
    else:
        _show(report, assumed_hop=opened.spec is None and "hop" not in dataset_options)


@app.command("list", epilog=LIST_EXAMPLES)
def list_homes() -> None:
    """Show the datasets that `cotrans data get` fetches: size, licence and what they are."""
    from pipelines.datasets.published.homes import known_homes

    for home in known_homes().values():
        print_line(f"{home.name}  ({home.about_size / 1e6:,.1f} MB, {home.licence})")
        for line in wrapped(home.title, indent="    "):
            print_line(line)


@app.command("get", epilog=GET_EXAMPLES)
def get(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; without a name, what `cotrans data list` says.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--root", help="The folder to make (default: a folder of its name in COTRANS_DATA).")
    ] = None,
    accept_changed: Annotated[
        bool, typer.Option("--accept-changed", help="Take a version that is not the one fetched here first.")
    ] = False,
) -> None:
    """Fetch a dataset from its public home (resumable, checked) and unpack it."""
    from pipelines.datasets.published.homes import default_root, fetched_before, find_home, get_dataset
    from pipelines.wording import counted

    if name is None:
        list_homes()
        return
    home = find_home(name)
    folder = default_root(home, root)
    fetched = fetched_before(home, folder)
    if fetched is not None:
        note(f"{fetched.root} holds it already: nothing is fetched")
    else:
        note(f"{home.title}; licence: {home.licence}; about {home.about_size / 1e6:,.1f} MB from {home.url}")
        with download_progress(home.name) as on_progress:
            fetched = get_dataset(home, folder, on_progress, accept_changed=accept_changed)
        if fetched.first_use:
            note(f"its home publishes no checksum; this one is kept for the next time: {fetched.sha256}")
    print_line(
        f"{counted(fetched.files, 'file')} in {fetched.root}: use --dataset {home.dataset} --root {fetched.root}"
    )


def _described(dataset: Dataset, decode: bool) -> DatasetReport:
    from pipelines.datasets.report import describe

    console = status_console()
    if not (decode and console.is_terminal):
        return describe(dataset, decode=decode)
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("decoding", total=len(dataset.items))
        return describe(
            dataset, decode=decode, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def _show(report: DatasetReport, assumed_hop: bool) -> None:
    from rich.table import Table

    console = result_console()
    unit = "clips" if report.kind == "clips" else "frames"
    per = f", counted every {report.hop:g} s" if report.kind == "frames" and report.hop else ""
    per += " (--hop, if the features have another)" if per and assumed_hop else ""
    print_line(f"{report.name}: {len(report.class_names)} classes, {unit} labelled{per}, in {report.root}")
    print_line(f"features: {report.features or 'none yet, only media or labels'}")
    overview = Table("split", box=None, pad_edge=False)
    for heading in ("items", "hours", "frames", "ambiguous"):
        overview.add_column(heading, justify="right")
    for name, split in report.splits.items():
        hours = "-" if split.hours is None else f"{split.hours:.2f}"
        frames = "-" if split.frames is None else f"{split.frames:,}"
        overview.add_row(name, f"{split.items:,}", hours, frames, f"{split.ambiguous:,}")
    console.print()
    console.print(overview)
    classes = Table(f"{unit} of", box=None, pad_edge=False)
    for name in report.splits:
        classes.add_column(name, justify="right")
    for index, label in enumerate(report.class_names):
        classes.add_row(label, *(f"{split.per_class[index]:,}" for split in report.splits.values()))
    console.print()
    console.print(classes)
    print_line()
    print_line(f"problems: {len(report.problems)}" if report.problems else "problems: none")
    for problem in report.problems:
        print_line(f"  {problem}")
    if report.problems:
        note("")
        note("items with problems are left out, or used as far as they go")
