"""`cotrans extract`: features of audio and video files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cotrans_cli.display.console import note, print_json, print_line, status_console
from cotrans_cli.display.terminal_text import shortened
from pipelines.wording import counted

if TYPE_CHECKING:
    from pipelines.features.extraction.engines import EngineName
    from pipelines.features.extraction.run import OnProgress, Progress, Summary
    from pipelines.features.files.npy_writer import Dtype
    from pipelines.features.request import FeatureRequest
    from pipelines.features.spec import Align

EXAMPLES = """
Examples:

  cotrans extract talks/ --out features/      sound or, without any, pictures; four rows a second

  cotrans extract talks/ --out features/ --model sound-events      what this model takes

  cotrans extract talks/ --out features/ --features logmel --hop 0.05

  cotrans extract "talks/**/*.mp4" --out features/ --features efficientnet_lite0 --fps 5 --workers 2

  cotrans extract GTZAN/ --out features/ --features vggish --hop 0.25 --align start      the paper's, for GTZAN

  cotrans extract videos/ --out features/ --features resnet50+vggish --layout lstr
"""
BAD_INPUTS = 3  # the exit code when some inputs could not be used
ROOM_FOR_ALL = 80  # columns of a terminal: with fewer, the bar is worth more than the pace and the name of the file
THE_REST = 64  # columns of what stands before the name, with tens of thousands of files


def extract(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Files, folders, quoted globs, or lists (.txt, a path per line)."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder for the feature files.")],
    features: Annotated[
        str,
        typer.Option(
            "--features",
            "-f",
            help="{values}, onnx:FILE, tflite:FILE; several joined by +.",
            show_default="musicnn for sound, efficientnet_lite0 for pictures without sound",
        ),
    ] = "auto",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME|FILE", help="The features that this model takes, instead.", show_default=False
        ),
    ] = None,
    hop: Annotated[
        float | None,
        typer.Option("--hop", help="Seconds between rows (default 0.25; speech: 0.08).", show_default=False),
    ] = None,
    fps: Annotated[
        float | None, typer.Option("--fps", help="Rows per second, instead of --hop.", show_default=False)
    ] = None,
    every: Annotated[
        int | None, typer.Option("--every", help="A row per this many video frames, instead.", show_default=False)
    ] = None,
    align: Annotated[
        str, typer.Option("--align", help="causal: a row saw nothing after its time; centre; start.")
    ] = "causal",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            help="Which layer. musicnn: pooled or tags; with network=msd_musicnn also middle and penultimate, joined "
            "by +. vggish: embedding or penultimate. efficientnet_lite0: features or classes.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="[NAME.]KEY=VALUE", help="An extractor's own option; may be repeated."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option("--weights", metavar="[NAME=]FILE", help="A file or a name of `cotrans weights list`."),
    ] = None,
    random_weights: Annotated[
        bool, typer.Option("--random-weights", help="Untrained networks, for trying things out; marked as such.")
    ] = False,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float16.")] = "float32",
    layout: Annotated[str, typer.Option("--layout", help="npy, lstr, oadtr or video_features.")] = "npy",
    workers: Annotated[int, typer.Option("--workers", "-j", help="Processes that work side by side.")] = 1,
    pieces: Annotated[
        float | None,
        typer.Option(
            "--pieces",
            metavar="SECONDS",
            help="Workers share recordings of twice this and more (default 1800); the rows are the same.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, or ray: the machines of a Ray cluster.")] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="The head of the Ray cluster.", show_default=False),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", help="Only share I of N: for array jobs with one --out.", show_default=False
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Write complete outputs again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> int:
    """Extract features from audio and video files: resumable, aligned, in the layout that the next tool reads.

    Complete outputs are skipped, so the same command continues a run that was stopped.

    Bad inputs are listed at the end (exit code 3); the good ones are done.
    """
    from pipelines.features.extraction.run import ExtractionOptions, extract
    from pipelines.features.request import FeatureRequest, parse_options, parse_weights
    from pipelines.shard import WHOLE, parse_shard

    asked = FeatureRequest(
        features,
        hop=hop,
        fps=fps,
        every=every,
        align=cast("Align", align),
        options=parse_options([*([f"output={output}"] if output else []), *(option or [])]),
        weights=parse_weights(weights or []),
        random_weights=random_weights,
    )
    options = ExtractionOptions(
        asked if model is None else _of_model(model, asked),
        device=device,
        dtype=cast("Dtype", dtype),
        layout=layout,
        workers=workers,
        force=force,
        engine=cast("EngineName", engine),
        address=address,
        piece_seconds=pieces,
        shard=WHOLE if shard is None else parse_shard(shard),
    )
    with _progress() as on_progress:
        summary = extract(sources, out, options, on_progress)
    if json:
        print_json(summary.to_dict())
    else:
        _print(summary)
    if summary.reason and summary.unexpected:  # what everybody expects of sound is in the summary anyway
        note(f"{summary.features} was taken because of {summary.reason}; --features names others")
    for problem in summary.problems:
        note(f"cotrans: {problem}")
    return 0 if summary.ok else BAD_INPUTS


def _of_model(model: str, asked: FeatureRequest) -> FeatureRequest:
    """The request for what a model takes; beside it, only weights can be named."""
    from pipelines.checkpoints.builtin import model_features
    from pipelines.errors import UsageError
    from pipelines.features.request import FeatureRequest

    if asked != FeatureRequest("auto", weights=asked.weights):
        raise UsageError("--model says which features and how: leave --features, --hop and their like out")
    return FeatureRequest.of_spec(model_features(model), asked.weights)


def _print(summary: Summary) -> None:
    counts = ", ".join(
        f"{summary.count(status)} {status}"
        for status in ("done", "skipped", "damaged", "failed")
        if summary.count(status) or status == "done"
    )
    if summary.missing:
        counts += f", {len(summary.missing)} missing"
    random = ", RANDOM WEIGHTS" if summary.random_weights else ""
    rows = counted(summary.rows, "row")
    print_line(f"{counts}: {rows} of {summary.features} ({summary.width} wide{random}) in {summary.out}")
    if summary.media_seconds:
        factor = summary.media_seconds / summary.elapsed
        print_line(f"{summary.media_seconds:.1f} s of media in {summary.elapsed:.1f} s (× {factor:.1f} real time)")
    for file in summary.files:
        print_line(f"all recordings together: {file}")
    if summary.ignored:
        note(f"left out, because they do not look like media: {counted(summary.ignored, 'file')} in the folders")


@contextmanager
def _progress() -> Iterator[OnProgress | None]:
    """A progress bar on a terminal; nothing elsewhere."""
    console = status_console()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    from cotrans_cli.display.time_left import TimeLeft

    wide = console.width >= ROOM_FOR_ALL
    columns = (
        TextColumn("{task.fields[count]}"),
        BarColumn(),
        TaskProgressColumn(),
        *([TextColumn("{task.fields[rate]}")] if wide else []),
        TimeLeft(),
        *([TextColumn("{task.fields[current]}", markup=False)] if wide else []),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("extract", total=None, count="beginning", rate="", current="")

        def show(progress: Progress) -> None:
            # Of the same width all the time: the bar would jump.
            room = max(1, min(console.width // 4, console.width - THE_REST))
            done = f"{progress.recordings_done:{len(str(progress.recordings))}}"
            bar.update(
                task,
                completed=progress.bytes_done,
                total=progress.bytes_total,
                count=f"{done} of {progress.recordings} files",
                rate=f"{f'× {progress.real_time_factor:.1f}':>8} real time",
                current=f"{shortened(progress.current, room):{room}}",
            )

        yield show
