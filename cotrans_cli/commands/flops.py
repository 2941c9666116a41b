"""`cotrans flops`: what attention, a model or a checkpoint costs, in numbers that say what they count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotrans_cli.arguments.choices import Activation, Encoding, Norm, Positional, Precision, Stacking
from cotrans_cli.arguments.options import Classifier, InputLayer, Prefix, option, precision_option
from cotrans_cli.display.console import note, print_json, print_line

EXAMPLES = """
Examples:

  cotrans flops --n 64 --d 1024                            regular, retroactive and single-output attention

  cotrans flops --n 64 --d 1024 --heads 8 --detail         equation by equation

  cotrans flops --model cooadtr-b1                         a model of the paper, module by module

  cotrans flops --model cooadtr-b2 --input 4096 --json

  cotrans flops model.safetensors --measure                a checkpoint, with the time per step on this machine

  cotrans flops --sweep n 16..4096 --plot scaling.png      growth as a table, and the paper's figure

  cotrans flops --paper                                    every number of the paper against ours
"""
SIZES, OUTPUT = "Sizes", "Output"
TOKEN = "Class token"  # apart: beside an option with two names there is no room for the long names of the sizes


def flops(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|NAME", help="A checkpoint (or one that `convert` reads), a built-in model, a run's folder."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="trans-b1, trans-b2, cotrans-b1, cotrans-b2, oadtr, oadtr-b1, oadtr-b2, oadtr-b3, cooadtr-b1, "
            "cooadtr-b2 or deep."
        ),
    ] = None,
    n: Annotated[int | None, option("--n", "--window", panel=SIZES, help="Tokens of a window.", least=1)] = None,
    d: Annotated[int | None, option("--d", "--width", panel=SIZES, help="Width of a token.", least=1)] = None,
    heads: Annotated[int | None, option("--heads", panel=SIZES, help="Attention heads.", least=1)] = None,
    input_width: Annotated[int | None, option("--input", panel=SIZES, help="Width of the features.", least=1)] = None,
    feed_forward: Annotated[int | None, option("--feed-forward", panel=SIZES, help="Hidden width.", least=1)] = None,
    blocks: Annotated[int | None, option("--blocks", panel=SIZES, help="Encoder blocks.", least=1)] = None,
    classes: Annotated[int | None, option("--classes", panel=SIZES, help="Classes.", least=1)] = None,
    class_token: Annotated[
        bool | None, typer.Option("--class-token/--no-class-token", rich_help_panel=TOKEN, help="Whether there is one.")
    ] = None,
    class_token_block: Annotated[
        int | None,
        option("--class-token-block", panel=TOKEN, help="The block that it enters at, from 1.", least=1),
    ] = None,
    positional: Annotated[
        Positional | None,
        option(
            "--positional",
            panel=SIZES,
            metavar="KIND",
            help="Positions: none, static, recycling, relative, rope or alibi.",
        ),
    ] = None,
    encoding: Annotated[Encoding | None, typer.Option(rich_help_panel=SIZES, help="Learned or fixed.")] = None,
    positions: Annotated[int | None, option("--positions", panel=SIZES, help="Entries of the table.", least=1)] = None,
    stacking: Annotated[Stacking | None, typer.Option(rich_help_panel=SIZES, help="How blocks are stacked.")] = None,
    norm: Annotated[Norm | None, typer.Option(rich_help_panel=SIZES, help="Where blocks norm.")] = None,
    activation: Annotated[Activation | None, typer.Option(rich_help_panel=SIZES, help="In the feed-forward.")] = None,
    lag: Annotated[int | None, option("--lag", panel=SIZES, help="Steps that the output is behind.", least=0)] = None,
    decoder_blocks: Annotated[
        int | None, option("--decoder-blocks", panel=SIZES, help="OadTR's decoder.", least=0)
    ] = None,
    decoder_queries: Annotated[
        int | None, option("--decoder-queries", panel=SIZES, help="Coming frames.", least=0)
    ] = None,
    decoder_heads: Annotated[
        int | None, option("--decoder-heads", panel=SIZES, help="Heads of the decoder.", least=1)
    ] = None,
    decoder_feed_forward: Annotated[
        int | None, option("--decoder-feed-forward", panel=SIZES, help="Its hidden width.", least=1)
    ] = None,
    prefix: Prefix = None,
    input_layer: InputLayer = None,
    classifier: Classifier = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Every row of the paper's tables against ours; --detail adds the reasons.")
    ] = False,
    sweep: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="n|d RANGE",
            help="Growth over n or d: 16..4096 doubles, 16..4096*4, 100..1000+100, or 16,64,256. The other size is "
            "256 unless given.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png|svg", rich_help_panel=OUTPUT, help="Draw the paper's figure: FLOPs and memory over n, d."
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", rich_help_panel=OUTPUT, help="Time per step and arithmetic rate, here and now.")
    ] = False,
    precision: Annotated[Precision, precision_option(OUTPUT)] = Precision.float32,
    detail: Annotated[
        bool, typer.Option("--detail", rich_help_panel=OUTPUT, help="Equation by equation; every product that ran.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON: stable keys.")] = False,
    csv: Annotated[bool, typer.Option("--csv", rich_help_panel=OUTPUT, help="Print the table as CSV.")] = False,
) -> None:
    """Count what attention, a model or a checkpoint costs.

    MACs are multiply-accumulates of matrix products. FLOPs are 2 x MACs and one for every other operation on a
    number. published: what the paper prints. paper_rule: its way of counting, applied correctly. counted: the MACs of
    all products, by formula. executed: the same, seen by a counter below a real step after warm-up.
    """
    from pipelines.errors import UsageError
    from pipelines.flops.choice import FlopsOptions, report

    if json and csv:
        raise UsageError("give one of --json and --csv")
    if csv and plot is not None and sweep is None:
        raise UsageError("--csv prints a table, and a figure alone has none: add --sweep n RANGE")
    sizes = {
        "window": n,
        "width": d,
        "heads": heads,
        "input_width": input_width,
        "feed_forward": feed_forward,
        "blocks": blocks,
        "classes": classes,
        "class_token_block": class_token_block,
        "positional": positional and positional.value,
        "encoding": encoding and encoding.value,
        "positions": positions,
        "stacking": stacking and stacking.value,
        "norm": norm and norm.value,
        "activation": activation and activation.value,
        "lag": lag,
        "decoder_blocks": decoder_blocks,
        "decoder_queries": decoder_queries,
        "decoder_heads": decoder_heads,
        "decoder_feed_forward": decoder_feed_forward,
    }
    naming = {"prefix": prefix, "input_layer": input_layer, "classifier": classifier}
    result = report(
        FlopsOptions(
            file,
            model,
            {name: value for name, value in sizes.items() if value is not None},
            {name: value for name, value in naming.items() if value is not None},
            class_token,
            sweep,
            plot,
            paper,
            measure,
            precision.value,
        )
    )
    if plot is not None:
        note(f"wrote {plot}")
    if result is None:
        if json:
            print_json({"plot": str(plot)})
        return
    from cotrans_cli.display.flops import csv_text, show

    if json:
        print_json(result.to_dict())
    elif csv:
        print_line(csv_text(result.rows(detail)))
    else:
        show(result, detail)
