"""`cotrans evaluate`: how good a model is as it will really run, with its cost and speed beside the score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotrans_cli.arguments import dataset_options as flags_of_datasets
from cotrans_cli.arguments.choices import Mode, PlotKind, Precision
from cotrans_cli.arguments.dataset_options import DATA
from cotrans_cli.arguments.given_options import refuse_others
from cotrans_cli.arguments.options import option, precision_option
from cotrans_cli.display.console import note
from cotrans_cli.display.evaluation import evaluation_progress, print_evaluation
from cotrans_cli.display.wanted_output import WantedOutput
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.evaluation.comparison import ComparisonOptions
    from pipelines.evaluation.data.data_request import DataRequest
    from pipelines.shard import Shard

EXAMPLES = """
Examples:

  cotrans evaluate --dataset gtzan --root GTZAN/ --split fault-filtered          the model that comes with cotrans

  cotrans evaluate --dataset gtzan --root GTZAN/ --model runs/gtzan-cotrans-b1 --mode all

  cotrans evaluate --dataset gtzan --root GTZAN/ --feature-dir features/ --model runs/trans-b1
  --model runs/cotrans-b1 --model runs/cotrans-b2 --markdown --plot figure2.svg

  cotrans evaluate --dataset thumos14 --root THUMOS/ --model oadtr.pth --protocol oadtr --json

  cotrans evaluate --dataset thumos14 --predictions scores.npz --plot confusion.png
"""
MODEL, SCORING, OUTPUT, SCALE = "Models", "Scoring", "Output", "Several machines"


@flags_of_datasets.with_dataset_options
def evaluate(
    *,
    context: typer.Context,
    dataset: flags_of_datasets.MaybeName = None,
    root: flags_of_datasets.Root = None,
    dataset_options: flags_of_datasets.Given,
    on: Annotated[
        str | None,
        option(
            "--on",
            panel=DATA,
            help="Part to score: test (default), validation (where no test is), train or all; --split takes it too.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        option(
            "--features", panel=DATA, metavar="NAME[+NAME]", help="Extractors for media (default: the checkpoint's)."
        ),
    ] = None,
    feature_option: flags_of_datasets.FeatureOption = None,
    weights: Annotated[
        list[str] | None, option("--weights", panel=DATA, metavar="NAME=FILE", help="Weights of an extractor.")
    ] = None,
    cache: flags_of_datasets.Cache = None,
    foreign: Annotated[
        Path | None,
        option(
            "--foreign",
            panel=DATA,
            metavar="FOLDER",
            help="Recordings of no class: how many of them a model of clips answers with none of these, and how many "
            "false alarms per hour a model of streams raises.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        option(
            "--predictions",
            panel=DATA,
            metavar="FILE.npz",
            help="Score what another program made, without a model: arrays scores (frames, classes), label and video "
            "(frames,); optionally classes (names) and anticipation (frames, horizons, classes).",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL",
            help="What --model takes, without the flag; with --merge, the parts.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        option(
            "--model",
            "-m",
            panel=MODEL,
            metavar="[NAME=]PATH",
            help="A file of ours or one that convert reads, the folder of a run, or one of several seeds (mean ± "
            "deviation). Repeat for several rows. Default: the built-in model of the dataset.",
        ),
    ] = None,
    checkpoint: Annotated[
        list[str] | None, typer.Option("--checkpoint", "-c", hidden=True, help="The same as --model.")
    ] = None,
    mode: Annotated[
        Mode,
        option(
            "--mode",
            panel=MODEL,
            help="stream: step by step. chunk: many steps at once, the same numbers. window: the regular model. all: "
            "all of them, compared; a difference is an error.",
        ),
    ] = Mode.chunk,
    baseline: Annotated[
        bool | None,
        typer.Option(
            "--baseline/--no-baseline",
            help="What single rows are worth, without memory: classifiers fitted to the training part (clips: their "
            "majority vote). Default: where features are there (frames, gtzan).",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int, option("--workers", panel=MODEL, help="Threads that read features ahead; 0: read in between.", least=0)
    ] = 1,
    precision: Annotated[Precision, precision_option(MODEL)] = Precision.float32,
    device: Annotated[str, option("--device", panel=MODEL, help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[
        int | None, option("--threads", panel=MODEL, help="Of the processor that PyTorch uses (default: all).", least=1)
    ] = None,
    protocol: Annotated[
        str | None,
        option(
            "--protocol",
            panel=SCORING,
            help="thumos14: lstr (every frame, default) or oadtr (without the ends of videos). tvseries: these and "
            "cooadtr (the authors' 20 classes).",
        ),
    ] = None,
    window: Annotated[
        int | None,
        option(
            "--window",
            panel=SCORING,
            help="n: oadtr leaves out the first n − 1 frames (default: the model's).",
            least=1,
        ),
    ] = None,
    future: Annotated[
        int | None,
        option(
            "--future",
            panel=SCORING,
            help="f: oadtr leaves out the last f + 1 frames (default: 8, or decoder).",
            least=0,
        ),
    ] = None,
    smooth: Annotated[
        str,
        option(
            "--smooth",
            panel=SCORING,
            help="Maximum over 5 frames: off, video (within videos) or pooled (across them, as the official script).",
        ),
    ] = "off",
    cliff_diving: Annotated[
        bool, option("--cliff-diving-as-diving", panel=SCORING, help="thumos14: cliff diving counts as diving too.")
    ] = False,
    threshold: Annotated[
        float,
        option("--threshold", panel=SCORING, help="Probability from which on an event is spotted.", least=0),
    ] = 0.5,
    bootstrap: Annotated[
        int,
        option(
            "--bootstrap", panel=SCORING, help="Resamples of the recordings for the 95 % interval; 0: none.", least=0
        ),
    ] = 200,
    seed: Annotated[int, option("--seed", panel=SCORING, help="Seed of the resampling.", least=0)] = 0,
    detail: Annotated[
        bool,
        option(
            "--detail",
            panel=SCORING,
            help="Frames: also how late actions are named, false alarms per hour, and AP per tenth of an action.",
        ),
    ] = False,
    at_precision: Annotated[
        float | None, option("--at-precision", panel=SCORING, help="Of the frames named, for --detail (default: 0.8).")
    ] = None,
    json: Annotated[bool, option("--json", panel=OUTPUT, help="Print JSON: fractions, stable keys.")] = False,
    csv: Annotated[
        bool, option("--csv", panel=OUTPUT, help="Print CSV, fractions: models, or classes of --predictions.")
    ] = False,
    markdown: Annotated[bool, option("--markdown", panel=OUTPUT, help="Print Markdown tables: percent.")] = False,
    plot: Annotated[
        Path | None,
        option(
            "--plot",
            panel=OUTPUT,
            metavar="FILE",
            help="Draw the confusion matrix of one model, or score against MACs of several (.png, .svg or .pdf); "
            "--plot-kind timeline: truth and scores of one video.",
        ),
    ] = None,
    plot_kind: Annotated[
        PlotKind,
        option("--plot-kind", panel=OUTPUT, help="Which of these, where the number of models is not to decide."),
    ] = PlotKind.auto,
    video: Annotated[
        str | None,
        option("--video", panel=OUTPUT, metavar="NAME", help="Of the timeline (default: the one with most action)."),
    ] = None,
    save: Annotated[
        Path | None,
        option("--save", panel=OUTPUT, metavar="FILE.npz", help="Write the predictions, as --predictions reads them."),
    ] = None,
    report: Annotated[
        Path | None,
        option(
            "--report", panel=OUTPUT, metavar="FILE.html", help="Write a page: confusion, classes, worst recordings."
        ),
    ] = None,
    quiet: Annotated[bool, option("--quiet", "-q", panel=OUTPUT, help="No progress and no notes.")] = False,
    shard: Annotated[
        str | None,
        option("--shard", panel=SCALE, metavar="I/N", help="Run share I of N of the recordings only, into --out."),
    ] = None,
    out: Annotated[Path | None, option("--out", panel=SCALE, metavar="PART.json", help="The part of a share.")] = None,
    merge: Annotated[
        bool, option("--merge", panel=SCALE, help="Join the parts of all shares: the table of one run.")
    ] = False,
    engine: Annotated[
        str, option("--engine", panel=SCALE, help="local, or ray: the machines of a Ray cluster run the recordings.")
    ] = "local",
    address: Annotated[
        str | None, option("--address", panel=SCALE, metavar="HOST:PORT", help="The head of the Ray cluster.")
    ] = None,
) -> None:
    """Score a model as it will really run, frame by frame, and say what it costs.

    GTZAN: accuracy of clips. THUMOS14: mAP per frame. TVSeries: calibrated mAP.

    Beside the score stand MACs, parameters, state, time of a step and real-time factor.
    """
    from pipelines.datasets.opening import check_dataset_name
    from pipelines.devices import use_threads
    from pipelines.evaluation.comparison import ComparisonOptions, parse_modes
    from pipelines.evaluation.data.data_of_run import data_of_run
    from pipelines.evaluation.data.data_request import parse_request
    from pipelines.evaluation.scores.diagnosis import DEFAULT_PRECISION
    from pipelines.evaluation.scores.smoothing import as_smoothing
    from pipelines.evaluation.tables.comparison_files import check_save_path
    from pipelines.evaluation.tables.page import check_report_path
    from pipelines.plots import check_plot_path
    from pipelines.shard import parse_shard

    if json + csv + markdown > 1:
        raise typer.BadParameter("choose one of --json, --csv and --markdown")
    if plot is not None:
        check_plot_path(plot)
    elif plot_kind is not PlotKind.auto:
        raise UsageError("--plot-kind says what to draw: add --plot FILE")
    if video is not None and plot_kind is not PlotKind.timeline:
        raise UsageError("--video is the one whose timeline is drawn: add --plot FILE --plot-kind timeline")
    if at_precision is not None and not detail:
        raise UsageError("--at-precision is that of --detail: add it")
    if save is not None:
        check_save_path(save)
    if report is not None:
        check_report_path(report)
    form = "json" if json else "csv" if csv else "markdown" if markdown else "table"
    wanted = WantedOutput(form, plot, plot_kind.value, video, save, quiet, report)
    wanted.keep([] if predictions is None else [predictions])
    if merge:
        refuse_others(context, _OF_PARTS, "--merge takes the parts as they are")
        _merge([Path(name) for name in models or []], wanted)
        return
    chosen = [*(models or []), *(model or []), *(checkpoint or [])]
    if dataset is None:
        own = data_of_run(chosen, root)
        dataset, root, dataset_options = own.dataset, own.root, {**own.options, **dataset_options}
        wanted.remark(f"scored on what the run was trained for: {own}")
    check_dataset_name(dataset)
    options = ComparisonOptions(
        modes=parse_modes(mode.value),
        protocol=protocol,
        window=window,
        future=future,
        smoothing=as_smoothing(smooth),
        cliff_diving_is_diving=cliff_diving,
        bootstrap=bootstrap,
        seed=seed,
        baseline="auto" if baseline is None else "on" if baseline else "off",
        detail=(DEFAULT_PRECISION if at_precision is None else at_precision) if detail else None,
        threshold=threshold,
        workers=workers,
        device=device,
        precision=precision.value,
        foreign=foreign,
    )
    if predictions is not None:
        refuse_others(context, _OF_PREDICTIONS, "--predictions scores a file's answers, without model or recordings")
        _score_file(predictions, dataset, options, wanted)
        return
    use_threads(threads)
    request = parse_request(dataset, root, on, dataset_options, features, feature_option or [], weights or [], cache)
    if (shard is None) != (out is None):
        raise UsageError("--shard I/N and --out PART.json go together: give both, or none of them")
    if shard is not None and out is not None:
        given = set(_SHOWING) - {"quiet"} | {"save", "video", "report", "engine", "address"}
        useful = {str(parameter.name) for parameter in context.command.params} - given
        refuse_others(context, useful, "a share has no table yet, --merge prints and draws it")
        _share(chosen, request, options, parse_shard(shard), out, quiet)
        return
    if engine == "ray":
        useful = {str(parameter.name) for parameter in context.command.params} - {"workers"}
        refuse_others(context, useful, "the machines of a Ray cluster read features themselves")
    _compare(chosen, request, options, wanted, engine, address)


def _compare(
    checkpoints: list[str],
    request: DataRequest,
    options: ComparisonOptions,
    wanted: WantedOutput,
    engine: str,
    address: str | None,
) -> None:
    from pipelines.evaluation.comparison import compare_models
    from pipelines.evaluation.data.contenders import find_contenders
    from pipelines.evaluation.sharing.cluster_runs import open_evaluators

    contenders = find_contenders(checkpoints, request.source.dataset)
    wanted.keep(file for contender in contenders for file in contender.files)
    with open_evaluators(engine, address, options) as who, evaluation_progress(wanted.quiet) as progress:
        comparison = compare_models(
            contenders, request, options, progress.on_rows, progress.on_item, who.run_of, who.engine
        )
    wanted.show(comparison)


def _share(
    checkpoints: list[str], request: DataRequest, options: ComparisonOptions, shard: Shard, out: Path, quiet: bool
) -> None:
    from pipelines.evaluation.data.contenders import find_contenders
    from pipelines.evaluation.sharing.part import write_part
    from pipelines.evaluation.sharing.share import run_share
    from pipelines.files import check_writable, refuse_overwriting

    contenders = find_contenders(checkpoints, request.source.dataset)
    refuse_overwriting([("--out", out)], [file for contender in contenders for file in contender.files])
    check_writable(out, "--out")
    with evaluation_progress(quiet) as progress:
        part = run_share(contenders, request, options, shard, progress.on_rows, progress.on_item)
    write_part(out, part)
    if not quiet:
        note(f"wrote {out}, share {shard}: join all of them with cotrans evaluate --merge")


def _merge(paths: list[Path], wanted: WantedOutput) -> None:
    from pipelines.evaluation.sharing.part import read_parts
    from pipelines.evaluation.sharing.share import join_parts

    wanted.keep(paths)
    parts = read_parts(paths)
    with evaluation_progress(wanted.quiet) as progress:
        comparison = join_parts(parts, progress.on_item)
    wanted.show(comparison)


def _score_file(path: Path, dataset: str, options: ComparisonOptions, wanted: WantedOutput) -> None:
    from pipelines.evaluation.comparison import scoring_options
    from pipelines.evaluation.scores.predictions import read_predictions
    from pipelines.evaluation.scores.scoring import score_predictions, write_confusion

    if wanted.plot_kind == PlotKind.macs.value:
        raise UsageError("--predictions come without a model, so there are no MACs to draw")
    if wanted.plot_kind == PlotKind.timeline.value:
        raise UsageError("a timeline has seconds, which --predictions do not say: draw it with --checkpoint")
    scoring = scoring_options(options)
    frames = read_predictions(path)
    evaluation = score_predictions(frames, dataset, options.protocol, scoring)
    print_evaluation(evaluation, wanted.form, wanted.quiet)
    if wanted.plot is not None:
        write_confusion(wanted.plot, frames, evaluation, scoring)
        note(f"wrote {wanted.plot}")


# What `--predictions` has a use for: the rest is about running a model. What `--merge` has: all else is in the parts.
_SCORING = ("protocol", "window", "future", "smooth", "cliff_diving", "bootstrap", "seed")
_SHOWING = ("json", "csv", "markdown", "plot", "plot_kind", "quiet")
_OF_PREDICTIONS = frozenset({"dataset", "predictions", *_SCORING, *_SHOWING})
_OF_PARTS = frozenset({"merge", "models", "video", "save", "report", *_SHOWING})
