"""`cotrans stream`: predictions while the media plays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cotrans_cli.arguments import feature_flags, serve_flags
from cotrans_cli.arguments.choices import Precision
from cotrans_cli.arguments.options import precision_option
from cotrans_cli.display.console import note, note_if_slow, on_terminal
from cotrans_cli.entry import exit_code
from cotrans_cli.stopping import stopping

EXAMPLES = """
Examples:

  cotrans stream talk.mp4      the live view, in real time

  cotrans stream song.mp3 --model music-genre --fast --segments      as fast as possible; start, end and label

  cotrans stream camera:0 --model runs/mine/best.safetensors      a model of your own

  cotrans stream film.mp4 --model sound-events,objects      heard and watched at once

  cotrans stream mic: --model spoken-digits

  cotrans stream rtsp://camera.local/stream --late drop --out labels.jsonl

  cotrans stream talks/ --fast --out labels/ --format srt      subtitles for every file of a folder

  cotrans stream talk.mp4 --fast --report talk.html      a page that plays it above its predictions

  cotrans stream features.npy --model oadtr.cotrans.safetensors --fast
"""
BAD_INPUTS = 3  # the exit code when some sources failed and others did not

PACE, OUTPUT, FAULTS, INPUT = "Pace", "Output", "Fault tolerance", "Source"


def stream(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Files, folders, quoted globs, feature files (.npy, FILE.pickle:VIDEO), addresses (rtsp://, http://), "
            "camera:0, mic:, or - for standard input. Several are rows of one batch.",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME|FILE[,…]",
            help="A built-in model (`cotrans models`) or a checkpoint; several separated by commas watch at once.",
            show_default="what config.toml says; sound-events for sound, objects for pictures without sound",
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="As fast as possible, not in real time.", rich_help_panel=PACE)
    ] = False,
    late: Annotated[
        str | None,
        typer.Option(
            metavar="drop|wait",
            help="When the machine cannot keep up: drop (skip to now) or wait.",
            rich_help_panel=PACE,
            show_default="drop for live sources, wait for files",
        ),
    ] = None,
    longest_lag: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How far behind `--late drop` begins to drop.",
            show_default="1",
            rich_help_panel=PACE,
        ),
    ] = None,
    start: Annotated[
        float, typer.Option(metavar="SECONDS", help="Begin at this time of the media.", rich_help_panel=PACE)
    ] = 0.0,
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Play only so much.", show_default=False, rich_help_panel=PACE),
    ] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Play files again and again.", rich_help_panel=PACE)] = False,
    at_once: Annotated[
        int, typer.Option(help="Sources that play side by side; others wait for their turn.", rich_help_panel=PACE)
    ] = 16,
    rate: Annotated[
        int | None,
        typer.Option(
            help="Raw sound on standard input: samples per second.", show_default=False, rich_help_panel=INPUT
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="… its channels.", show_default="1", rich_help_panel=INPUT)
    ] = None,
    sample_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="… its format: s16le, f32le, u8, s24le, s32le …",
            show_default="s16le",
            rich_help_panel=INPUT,
        ),
    ] = None,
    hop: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Between rows of feature files that do not say it.",
            show_default="0.25",
            rich_help_panel=INPUT,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="{values}.",
            rich_help_panel=OUTPUT,
            show_default="by the suffix of --out; a live view on a terminal, otherwise table",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER", help="Write there; a folder gets a file per source.", rich_help_panel=OUTPUT
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(help="How many of the best classes are shown.", show_default="3", rich_help_panel=OUTPUT),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CLASS=]SCORE",
            help="Below this score (0 to 1) a class is not there; may be repeated for single classes.",
            show_default="the model's own rule for none of its classes",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS", help="Tell of this class only; may be repeated.", rich_help_panel=OUTPUT),
    ] = None,
    hide: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="Do not tell of this class; may be repeated.",
            show_default="background, in segments and subtitles",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Leave out segments that are shorter (half of it is enough for one that the end cuts off).",
            show_default="as the model says: models of your own clips, the others 0",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    smooth: Annotated[
        float | None,
        typer.Option(
            help="Average scores over the last SECONDS.",
            metavar="SECONDS",
            show_default="as the model says: objects 1, the other built-in ones 0",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    no_order: Annotated[
        bool,
        typer.Option(
            "--no-order",
            help="Every row by itself, also of classes that follow each other (golf-swing).",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    segments: Annotated[
        bool, typer.Option("--segments", help="Merge frames into rows of start, end, label.", rich_help_panel=OUTPUT)
    ] = False,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="All classes' raw scores (before softmax), in the checkpoint's order.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    overlay: Annotated[
        Path | None,
        typer.Option(metavar="FILE.mp4", help="Write the video with labels burnt in.", rich_help_panel=OUTPUT),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write the summary as JSON too.", rich_help_panel=OUTPUT),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a page that plays the media above a timeline of the predictions, to look at and correct.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="… with the media inside, not linked.", rich_help_panel=OUTPUT)
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="… with the events of a table beside them.", rich_help_panel=OUTPUT),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines instead of the live view.", rich_help_panel=OUTPUT)
    ] = False,
    picture: Annotated[
        bool,
        typer.Option(
            "--picture/--no-picture", help="The picture of a video in the live view and page.", rich_help_panel=OUTPUT
        ),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.", rich_help_panel=OUTPUT)] = False,
    serve: serve_flags.Serve = None,
    token: serve_flags.Token = None,
    keep_serving: serve_flags.KeepServing = False,
    snapshot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state there.", rich_help_panel=FAULTS)
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="… this often.", show_default="10", rich_help_panel=FAULTS),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from a snapshot, with the same sources.", rich_help_panel=FAULTS),
    ] = None,
    reconnects: Annotated[
        int | None,
        typer.Option(
            help="Attempts in a row to get a lost network source back.", show_default="10", rich_help_panel=FAULTS
        ),
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What makes probabilities of scores: softmax, or sigmoid for several labels at once.",
            show_default="as the model was trained",
        ),
    ] = None,
    features: feature_flags.Features = None,
    option: feature_flags.FeatureOption = None,
    random_weights: feature_flags.RandomWeights = False,
    weights: feature_flags.FeatureWeights = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="FILE|NAMES", help="Other names of the classes.", rich_help_panel=OUTPUT),
    ] = None,
    precision: Annotated[Precision, precision_option()] = Precision.float32,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu or cuda.", show_default="auto")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of PyTorch.", show_default=False)] = None,
) -> int:
    """Predict while media plays: for every frame a line, from a file, a camera, a microphone or the network.

    The model says which features it takes; they are computed on the fly, exactly as `cotrans extract` does.
    """
    from pipelines.errors import UsageError
    from pipelines.features.request import parse_weights
    from pipelines.quick_torch import defer_compiler
    from pipelines.settings import load_settings
    from pipelines.streaming.options import PlayOptions, PredictionOptions, pcm_options
    from pipelines.streaming.output.choice import OutputOptions
    from pipelines.streaming.predicting.label_rule import parse_thresholds
    from pipelines.streaming.predicting.model_choice import choose_models
    from pipelines.streaming.sources.source import find_sources

    # What is wrong with the arguments is told before PyTorch is imported, which takes a second.
    settings = load_settings()
    common, by_class = parse_thresholds(threshold or [])
    play = PlayOptions(
        fast=fast,
        late=cast(Any, late),
        longest_lag=longest_lag,
        start=start,
        duration=duration,
        loop=loop,
        at_once=at_once,
        pcm=pcm_options(rate, channels, sample_format),
        hop=hop,
        reconnects=reconnects,
        snapshot=snapshot,
        every=every,
        resume=resume,
    )
    prediction = PredictionOptions(
        top_k, common, smooth, by_class, tuple(only or ()), tuple(hide or ()), least, order=not no_order
    )
    written = OutputOptions(format, out, scores, segments)
    reported = _report(report, embed, truth)
    served = serve_flags.serve_options(serve, token, keep_serving)
    with note_if_slow(f"looking for recordings in {', '.join(sources)}"):
        opened = find_sources(sources)
    if all(source.problem for source in opened):  # no model is needed to say so
        for source in opened:
            note(f"cotrans: error: {source.problem}")
        return BAD_INPUTS
    play.check_sources(opened)
    if len(opened) > at_once and not quiet:
        note(f"{len(opened):,} sources: {at_once} play side by side (--at-once), the others wait for their turn")
    choice = choose_models(model, opened)
    request = feature_flags.feature_request(features, hop, option, weights, random_weights)

    defer_compiler()
    from cotrans_cli.display.live_page import LivePage
    from cotrans_cli.display.live_view import can_show, observing
    from pipelines.checkpoints.labels import parse_labels
    from pipelines.devices import use_threads
    from pipelines.streaming.predicting.stream_model import open_model
    from pipelines.streaming.run import RunOptions, StreamRun
    from pipelines.streaming.several_models import watched

    use_threads(settings.threads if threads is None else threads)
    nothing_else = out is not None or not (format or scores or segments)
    watching = nothing_else and not plain and can_show()
    if top_k is not None and written.by_segments and not watching and overlay is None:
        raise UsageError("--top-k is about single frames: it does not go with --segments, srt and vtt")
    options = RunOptions(
        play=play,
        prediction=prediction,
        output=None if watching and out is None else written,
        overlay=overlay,
        summary=summary,
        report=reported,
    )
    models = [
        open_model(
            name,
            device=device or settings.device,
            weights=parse_weights(weights or []),
            activation=cast(Any, activation),
            features=request,
            class_names=None if labels is None else parse_labels(labels),
            precision=precision.value,
        )
        for name in choice.names
    ]
    if choice.reason is not None and not quiet:
        note(f"{choice.names[0]} was taken because of {choice.reason}; --model names another")
    with LivePage(served, opened, models, picture) as page:
        # Lines on a terminal show by themselves how far the stream is.
        bar = not quiet and (written.out is not None or not on_terminal() or overlay is not None)
        with observing(watching, watched(opened, models), models, picture, bar, not fast) as observer:
            run = StreamRun(opened, models, options, page.beside(observer), sys.stdout)
            page.control(run.stream)
            with stopping(run) as signals:
                result = run.run()
        if keep_serving and not signals:
            page.stay()
    errors = run.stream.errors
    if not quiet and (result.frames or not errors):
        for line in result.lines():
            note(line)
        for path in run.written:
            note(f"wrote {path}")
    if signals:
        return exit_code(signals[0])
    if len(run.stream.sources) == 1:
        run.stream.raise_if_all_failed()
    if 0 < len(errors) < len(run.stream.sources):
        what = "sources" if len(models) == 1 else f"pairs of a source and a model (there are {len(models)} models)"
        note(f"cotrans: error: {len(errors)} of {len(run.stream.sources)} {what} failed")
        return BAD_INPUTS
    return errors[0].exit_code if errors else 0


def _report(path: Path | None, embed: bool, truth: Path | None) -> Any:
    from pipelines.errors import UsageError

    if path is None:
        if embed or truth is not None:
            raise UsageError("--embed and --truth are about a report: add --report FILE.html")
        return None
    from pipelines.streaming.output.report_options import ReportOptions

    return ReportOptions(path, embed, truth)
