"""`cotrans export`: one step of a model, with its state, for other runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cotrans_cli.display.console import note, print_json, print_line
from cotrans_cli.display.facts import print_facts

if TYPE_CHECKING:
    from pipelines.exporting.exporter import Export

EXAMPLES = """
Examples:

  cotrans export music-genre --out genre.onnx

  cotrans export runs/mine --out mine.onnx --precision int8

  cotrans stream talk.wav --model mine.onnx      in onnxruntime, without PyTorch
"""


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A built-in model (`cotrans models`), a checkpoint or the folder of a run."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")],
    format: Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="onnx or torch-export.")] = "onnx",
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="Of the weights: float32, float16 or int8.")
    ] = "float32",
    opset: Annotated[
        int | None, typer.Option(metavar="N", help="Version of ONNX's operators.", show_default="18")
    ] = None,
    with_features: Annotated[
        bool, typer.Option("--with-features", help="Sound in, scores out: for models that take logmel.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write one step of a model as a graph: a row and the state in, scores and the new state out.

    The file is compared with the model over three windows of random rows. If they differ by more than the precision
    allows, nothing is written and the exit code is 5. `cotrans stream --model FILE.onnx` runs it without PyTorch.
    """
    from pipelines.exporting.exporter import ExportOptions, export_model

    options = ExportOptions(cast(Any, format), cast(Any, precision), opset, with_features)
    exported = export_model(model, out, options)
    if json:
        print_json(exported.to_dict())
        return
    print_facts(_facts(exported))
    if exported.format == "onnx":
        note(f"next: cotrans stream FILE --model {exported.path}")
    print_line(f"wrote {exported.path}")


def _facts(exported: Export) -> Iterator[tuple[str, str]]:
    description, proof = exported.description, exported.verification
    yield "model", f"{description.name}: {description.classes} classes, window {description.window}"
    opset = "" if exported.opset is None else f", opset {exported.opset}"
    yield "format", f"{exported.format}{opset}, {description.precision}, {exported.size / 1e6:,.1f} MB"
    yield "inputs", ", ".join(exported.signature.inputs)
    yield "outputs", ", ".join(exported.signature.outputs)
    batches = " and ".join(map(str, proof.batches))
    yield (
        "check",
        f"{proof.steps} steps, batches of {batches}: largest difference {proof.relative:.1e} relative "
        f"(at most {proof.tolerance:.0e}), the same class at {proof.same_class:.1%}",
    )
