"""`cotrans convert`: a streaming model out of a regular one, with a proof that the outputs are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotrans_cli.arguments import feature_flags, lstr_options
from cotrans_cli.arguments.choices import Activation, Encoding, Norm
from cotrans_cli.arguments.options import UNSAID, Classifier, InputLayer, Prefix, option
from cotrans_cli.display.console import note, print_json, print_line, status_console
from cotrans_cli.display.facts import print_facts

if TYPE_CHECKING:
    from pipelines.checkpoints.conversion import Conversion
    from pipelines.checkpoints.proof import Progress, Proof

EXAMPLES = """
Examples:

  cotrans convert oadtr.pth                     writes oadtr.cotrans.safetensors

  cotrans convert oadtr_b1.pth --no-class-token --labels classes.txt

  cotrans convert miniroad.pth

  cotrans convert lstr.pth --config lstr.yaml

  cotrans convert encoder.pth --heads 8 --window 64 --norm pre

  cotrans convert model.pth --prefix encoder. --classifier head --heads 8 --window 64

  cotrans convert oadtr.pth --mode recycling    the paper's way; needs fine-tuning

  cotrans convert oadtr.pth --mode deep         one row in every block; needs fine-tuning
"""
LEFT_OUT = 5  # the exit code when parts of the source that change its numbers were not converted
RESULT, WHERE = "What to make of it", "Files and output"


class Mode(str, Enum):
    exact = "exact"
    recycling = "recycling"
    deep = "deep"


class Entries(str, Enum):
    n = "n"
    double = "2n-1"


def convert(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="OadTR, CoOadTR, MiniROAD, LSTR, TeSTra, torch.nn.TransformerEncoder or continual.TransformerEncoder: "
            ".pth or .safetensors.",
        ),
    ],
    mode: Annotated[
        Mode,
        typer.Option(
            rich_help_panel=RESULT,
            help="exact: the same outputs at every step. recycling: static positions become recycling ones, the "
            "paper's way: cheapest, and accuracy needs fine-tuning. deep: every block computes one row only: linear "
            "cost at any depth, and accuracy needs fine-tuning.",
        ),
    ] = Mode.exact,
    positions: Annotated[
        Entries | None, typer.Option(rich_help_panel=RESULT, help="Recycling: entries of the table (default 2n-1).")
    ] = None,
    encoding: Annotated[
        Encoding | None, typer.Option(rich_help_panel=RESULT, help="Recycling: kind of the table (default learned).")
    ] = None,
    drop_decoder: Annotated[
        bool,
        typer.Option("--drop-decoder", rich_help_panel=RESULT, help="Leave OadTR's decoder out; needs fine-tuning."),
    ] = False,
    class_token: Annotated[
        bool | None,
        typer.Option(
            "--class-token/--no-class-token",
            rich_help_panel=UNSAID,
            help="Whether an OadTR without decoder runs with its class token: its file is the same either way.",
        ),
    ] = None,
    class_token_block: Annotated[
        int | None,
        option("--class-token-block", panel=UNSAID, help="The block that the class token enters at, from 1.", least=1),
    ] = None,
    window: Annotated[int | None, option("--window", panel=UNSAID, help="n, the tokens of a window.", least=1)] = None,
    heads: Annotated[int | None, option("--heads", panel=UNSAID, help="Attention heads.", least=1)] = None,
    decoder_heads: Annotated[
        int | None, option("--decoder-heads", panel=UNSAID, help="Heads of the decoder.", least=1)
    ] = None,
    norm: Annotated[
        Norm | None, typer.Option(rich_help_panel=UNSAID, help="Encoders of torch: post (default) or pre (norm_first).")
    ] = None,
    activation: Annotated[
        Activation | None, typer.Option(rich_help_panel=UNSAID, help="Encoders of libraries: default as theirs.")
    ] = None,
    prefix: Prefix = None,
    input_layer: InputLayer = None,
    classifier: Classifier = None,
    config: lstr_options.Config = None,
    fps: lstr_options.Fps = None,
    long_seconds: lstr_options.LongSeconds = None,
    long_rate: lstr_options.LongRate = None,
    work_seconds: lstr_options.WorkSeconds = None,
    work_rate: lstr_options.WorkRate = None,
    long_positions: lstr_options.LongPositions = None,
    include_work: lstr_options.IncludeWork = None,
    decay: lstr_options.Decay = None,
    positions_key: Annotated[
        str | None,
        option("--positions-key", panel=UNSAID, help="Key of the table of positions, if it is not clear: pos_embed."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=UNSAID,
            metavar="FILE|NAMES",
            help="Class names: a text file with one a line, a JSON list, or cat,dog,rain.",
        ),
    ] = None,
    features: feature_flags.Features = None,
    hop: Annotated[
        float | None,
        option("--hop", panel=feature_flags.FEATURES, metavar="SECONDS", help="Between rows (default 0.25)."),
    ] = None,
    feature_option: feature_flags.FeatureOption = None,
    weights: feature_flags.FeatureWeights = None,
    random_weights: feature_flags.RandomWeights = False,
    allow_dropped: Annotated[
        bool,
        typer.Option(
            "--allow-dropped",
            rich_help_panel=RESULT,
            help="Exit with 0 although positions or norms lie outside of what is converted.",
        ),
    ] = False,
    verify: Annotated[
        Path | None,
        typer.Option(rich_help_panel=WHERE, metavar="FILE.npy", help="Prove it on your own features too."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", rich_help_panel=WHERE, help="Default: FILE.cotrans.safetensors.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=WHERE, help="Overwrite the output if it exists.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", rich_help_panel=WHERE, help="Print the report as JSON.")] = False,
) -> int:
    """Make a streaming model out of a regular checkpoint, and prove that it gives the same outputs.

    The file is recognised by its keys; nothing in it is run. The proof compares the source model, on the window of
    every step, with the converted one over six windows of random features. If they differ by more than 1e-4
    relative, nothing is written and the exit code is 5.
    """
    from pipelines.checkpoints.output_path import output_path

    output_path(file, out, force, verify)  # what is wrong with it is told now, not after the imports below
    from pipelines.checkpoints.conversion import ConversionOptions
    from pipelines.checkpoints.conversion import convert as run_conversion
    from pipelines.checkpoints.foreign_files.imported import Hints
    from pipelines.checkpoints.labels import parse_labels
    from pipelines.files import refuse_overwriting

    if out is not None and labels is not None:
        refuse_overwriting([("--out", out)], [Path(labels)])
    hints = Hints(
        window=window,
        heads=heads,
        class_token=class_token,
        class_token_block=class_token_block,
        decoder_heads=decoder_heads,
        norm=None if norm is None else norm.value,
        activation=None if activation is None else activation.value,
        positions=None if positions is None else positions.value,
        encoding=None if encoding is None else encoding.value,
        prefix=prefix,
        input_layer=input_layer,
        classifier=classifier,
        positions_key=positions_key,
        config=config,
        fps=fps,
        long_seconds=long_seconds,
        long_rate=long_rate,
        work_seconds=work_seconds,
        work_rate=work_rate,
        long_positions=long_positions,
        include_work=include_work,
        decay=decay,
    )
    options = ConversionOptions(
        mode=mode.value,
        hints=hints,
        drop_decoder=drop_decoder,
        class_names=None if labels is None else parse_labels(labels),
        output=out,
        force=force,
        verify=verify,
        features=feature_flags.feature_request(features, hop, feature_option, weights, random_weights),
    )
    with _progress() as on_progress:
        conversion = run_conversion(file, options, on_progress)
    if json:
        print_json(conversion.to_dict())
    else:
        _show(conversion)
    if not conversion.left_out:
        return 0
    advice = "" if allow_dropped else " (--allow-dropped if that is meant)"
    note(
        f"warning: the numbers differ from your model's: {', '.join(conversion.left_out)} left out, which the proof "
        f"does not cover{advice}"
    )
    return 0 if allow_dropped else LEFT_OUT


def _show(conversion: Conversion) -> None:
    print_facts(_rows(conversion))
    for remark in conversion.notes:
        note(f"note: {remark}")
    if conversion.next_command is not None:
        note(f"next: {conversion.next_command}")
    print_line(f"wrote {conversion.output}")


def _rows(conversion: Conversion) -> Iterator[tuple[str, str]]:
    yield "read", f"{conversion.source}: {conversion.kind}"
    yield "model", f"{conversion.config.sizes()}, {conversion.parameters:,} parameters"
    yield "mapped", f"{len(conversion.mapped)} tensors"
    dropped: dict[str, list[str]] = {}
    for key, reason in conversion.dropped.items():
        dropped.setdefault(reason, []).append(key)
    for reason, keys in dropped.items():
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        yield "dropped", f"{', '.join(keys[:3])}{more} ({reason})"
    if conversion.beside:
        yield "not weights", ", ".join(conversion.beside)
    before, after = conversion.macs_before, conversion.macs_after
    if conversion.already_continual:
        cost = f"{_million(after)}, as in the file; the regular model on a window: {_million(before)}"
    elif before == after:
        cost = f"{_million(after)}, as before: this model is one that steps"
    elif conversion.own_source:
        cost = f"{_million(after)}; the regular model of the file on a window: {_million(before)}"
    else:
        cost = f"{_million(before)} before, {_million(after)} after: {before / after:.1f} times fewer"
    yield "MACs per prediction", cost
    yield "state", f"{conversion.state_bytes / 1024:,.1f} KiB per stream"
    yield "proof", _proof(conversion.proof, "random features")
    if conversion.verified is not None:
        yield "verified", _proof(conversion.verified, "your features")
    if conversion.source_difference is not None:
        difference = conversion.source_difference
        yield (
            "not the source",
            (
                f"until it is fine-tuned, scores differ from the source's by {difference.mean:.1e} relative in the "
                f"mean, by up to {difference.relative:.1e}; the class is the same at {difference.same_class:.0%} of "
                f"the steps ({difference.features})"
            ),
        )


def _proof(proof: Proof, what: str) -> str:
    return (
        f"{proof.steps} steps of {what}: largest difference {proof.relative:.1e} relative, {proof.absolute:.1e} "
        f"absolute (at step {proof.step})"
    )


def _million(macs: int) -> str:
    return f"{macs / 1e6:,.1f} M" if macs >= 1e6 else f"{macs:,}"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A progress bar on a terminal, nothing elsewhere."""
    console = status_console()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("proof, steps", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
