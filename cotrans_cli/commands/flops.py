"""`cotrans flops`: what attention, a model or a checkpoint costs, in numbers that say what they count."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cotrans_cli.console import note, print_json, print_line

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
SIZES, FILES, OUTPUT = "Sizes", "What a file of another project does not say", "Output"


class Positional(str, Enum):
    none = "none"
    static = "static"
    recycling = "recycling"


class Encoding(str, Enum):
    learned = "learned"
    cyclic = "cyclic"


class Stacking(str, Enum):
    exact = "exact"
    deep = "deep"


class Norm(str, Enum):
    pre = "pre"
    post = "post"


class Activation(str, Enum):
    relu = "relu"
    gelu = "gelu"


def flops(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A checkpoint: ours, or one that `cotrans convert` reads.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="trans-b1, trans-b2, cotrans-b1, cotrans-b2, oadtr, oadtr-b1, oadtr-b2, oadtr-b3, cooadtr-b1, "
            "cooadtr-b2 or deep."
        ),
    ] = None,
    n: Annotated[int | None, typer.Option("--n", "--window", rich_help_panel=SIZES, help="Tokens of a window.")] = None,
    d: Annotated[int | None, typer.Option("--d", "--width", rich_help_panel=SIZES, help="Width of a token.")] = None,
    heads: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Attention heads.")] = None,
    input_width: Annotated[
        int | None, typer.Option("--input", rich_help_panel=SIZES, help="Width of the features.")
    ] = None,
    feed_forward: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Hidden width.")] = None,
    blocks: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Encoder blocks.")] = None,
    classes: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Classes.")] = None,
    class_token: Annotated[
        bool | None, typer.Option("--class-token/--no-class-token", rich_help_panel=SIZES, help="A class token.")
    ] = None,
    class_token_block: Annotated[
        int | None, typer.Option(rich_help_panel=SIZES, help="The block that the class token enters at, from 1.")
    ] = None,
    positional: Annotated[Positional | None, typer.Option(rich_help_panel=SIZES, help="Kind of positions.")] = None,
    encoding: Annotated[Encoding | None, typer.Option(rich_help_panel=SIZES, help="Learned or fixed.")] = None,
    positions: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Entries of the table.")] = None,
    stacking: Annotated[Stacking | None, typer.Option(rich_help_panel=SIZES, help="How blocks are stacked.")] = None,
    norm: Annotated[Norm | None, typer.Option(rich_help_panel=SIZES, help="Where blocks norm.")] = None,
    activation: Annotated[Activation | None, typer.Option(rich_help_panel=SIZES, help="In the feed-forward.")] = None,
    lag: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Steps that the output is behind.")] = None,
    decoder_blocks: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="OadTR's decoder.")] = None,
    decoder_queries: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Coming frames.")] = None,
    decoder_heads: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Heads of the decoder.")] = None,
    decoder_feed_forward: Annotated[int | None, typer.Option(rich_help_panel=SIZES, help="Its hidden width.")] = None,
    prefix: Annotated[
        str | None, typer.Option(rich_help_panel=FILES, help="Take the encoder whose keys begin so: 'encoder.'.")
    ] = None,
    input_layer: Annotated[
        str | None, typer.Option(rich_help_panel=FILES, help="Module that projects the input, if it is not clear.")
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(rich_help_panel=FILES, help="Module that makes the scores, if it is not clear.")
    ] = None,
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
    from pipelines.reports.flops import FlopsOptions, report

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
        )
    )
    if plot is not None:
        note(f"wrote {plot}")
    if result is None:
        if json:
            print_json({"plot": str(plot)})
        return
    from cotrans_cli.flops_display import csv_text, show

    if json:
        print_json(result.to_dict())
    elif csv:
        print_line(csv_text(result.rows(detail)))
    else:
        show(result, detail)
