"""`cotrans extract` without the command line: many recordings, resumed, in several processes, bad ones listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.devices import check_side_by_side
from pipelines.errors import InputError, UsageError
from pipelines.features.default_features import tracks_of
from pipelines.features.extraction.engines import Engine, EngineName, check_engine, open_engine
from pipelines.features.extraction.oadtr_parts import join_oadtr
from pipelines.features.extraction.parallel import extract_in_parallel
from pipelines.features.extraction.pieces import PIECE_SECONDS, SHORTEST_PIECE, plan_pieces
from pipelines.features.extraction.recording import Outcome, OutputError, Target, extract_recording, look_up
from pipelines.features.extraction.sources import Recording, Selection, find_recordings
from pipelines.features.files.feature_files import DTYPES
from pipelines.features.files.layout import LAYOUTS, target_files
from pipelines.features.files.npy_writer import Dtype
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.files import refuse_overwriting, unwritable
from pipelines.shard import WHOLE, Shard

AUTO = "auto"  # features by what the recordings hold


@dataclass(frozen=True)
class ExtractionOptions:
    """What to compute and how to write it."""

    features: FeatureRequest  # its names may be AUTO
    dtype: Dtype = "float32"
    layout: str = "npy"
    workers: int = 1
    device: str = "auto"  # of video networks
    force: bool = False  # write complete outputs again
    shard: Shard = WHOLE  # the share of the recordings that this run takes
    engine: EngineName = "local"
    address: str | None = None  # of the engine; None: it knows by itself
    piece_seconds: float | None = None  # how long the pieces of long recordings are; None: half an hour


@dataclass(frozen=True)
class Progress:
    """How far a run is. The sizes of the sources are the measure: they are known without opening them."""

    recordings: int
    recordings_done: int
    bytes_total: int
    bytes_done: float  # those of recordings under way count in proportion
    media_seconds: float  # extracted in this run
    elapsed: float  # seconds
    current: str  # the recording that moved last

    @property
    def real_time_factor(self) -> float:
        """Seconds of media per second of work."""
        return self.media_seconds / self.elapsed if self.elapsed > 0 else 0.0


@dataclass(frozen=True)
class Summary:
    """What a run did. `ok` says whether every input has whole features now."""

    out: str
    features: str
    width: int
    layout: str
    dtype: str
    random_weights: bool
    outcomes: tuple[Outcome, ...]  # sorted by name
    missing: tuple[str, ...]  # inputs that were named and are not there
    ignored: int  # files in folders that do not look like media
    elapsed: float
    files: tuple[str, ...] = field(default=())  # files for all recordings together
    reason: str | None = None  # why these features; None: they were named
    unexpected: bool = False  # not all recordings have sound, so that the features are worth a remark

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)

    @property
    def rows(self) -> int:
        return sum(outcome.rows for outcome in self.outcomes)

    @property
    def media_seconds(self) -> float:
        """Seconds of media that were extracted in this run."""
        return sum(outcome.seconds for outcome in self.outcomes if outcome.fresh)

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for every input that is bad."""
        lines = [o.message or f"{o.source}: {o.status}" for o in self.outcomes if o.status not in ("done", "skipped")]
        return (*lines, *(f"{name}: no such file" for name in self.missing))

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        factor = self.media_seconds / self.elapsed if self.elapsed > 0 else 0.0
        counts = {status: self.count(status) for status in ("done", "skipped", "damaged", "failed")}
        return {
            **{key: getattr(self, key) for key in ("out", "features", "width", "layout", "dtype", "random_weights")},
            "chosen_because": self.reason,
            **counts,
            "missing": list(self.missing),
            "ignored": self.ignored,
            "rows": self.rows,
            "media_seconds": self.media_seconds,
            "elapsed": self.elapsed,
            "real_time_factor": factor,
            "files": list(self.files),
            "recordings": [asdict(outcome) for outcome in self.outcomes],
        }


OnProgress = Callable[[Progress], None]


def extract(
    sources: Sequence[str], out: Path, options: ExtractionOptions, on_progress: OnProgress | None = None
) -> Summary:
    """Extract the features of every recording that `sources` name into `out`.

    Complete outputs are skipped. Bad inputs do not stop the others: they are in the summary. Settings that cannot
    work, missing weights, and outputs that were made with other settings raise before anything is written.
    """
    _check(out, options)
    started = time.monotonic()
    inputs = find_recordings(sources)
    reason, unexpected = None, False
    if options.features.names == AUTO:
        tracks = tracks_of(recording.path for recording in inputs.recordings)
        options, reason = replace(options, features=replace(options.features, names=tracks.features)), tracks.reason
        unexpected = tracks.with_sound < tracks.files
    streams = StreamFactory(options.features, options.device)
    spec = streams.prototype().spec
    target = Target(out, options.layout, options.dtype, options.force)
    outcomes: dict[str, Outcome] = {}
    waiting = []
    mine = options.shard.of(inputs.recordings)
    for recording in mine:
        outcome = _look_up(recording, target, streams)
        if outcome is None:
            waiting.append(recording)
        else:
            outcomes[recording.name] = outcome
    _refuse_conflicts([outcome for outcome in outcomes.values() if outcome.status == "conflict"])
    _refuse_clashes(inputs, target, streams, spec)
    meter = _Meter(mine, outcomes, started, on_progress)
    if waiting:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(unwritable(out, error)) from error
    alone = _needs_no_engine(waiting, options, streams)
    with nullcontext() if alone else open_engine(options.engine, options.workers, options.address) as engine:
        for wait in (False, True):  # what another run is busy with comes last
            for outcome in _run(waiting, target, options, streams, meter, wait, engine):
                outcomes[outcome.name] = outcome
            waiting = [recording for recording in waiting if outcomes[recording.name].status == "busy"]
    _refuse_conflicts([outcome for outcome in outcomes.values() if outcome.status == "conflict"])
    return Summary(
        out=str(out),
        features=spec.name,
        width=spec.width,
        layout=options.layout,
        dtype=options.dtype,
        random_weights=spec.untrained,
        outcomes=tuple(sorted(outcomes.values(), key=lambda outcome: outcome.name)),
        missing=inputs.missing,
        ignored=inputs.ignored,
        elapsed=time.monotonic() - started,
        files=join_oadtr(out) if options.layout == "oadtr" and out.is_dir() else (),
        reason=reason,
        unexpected=unexpected,
    )


def _check(out: Path, options: ExtractionOptions) -> None:
    if options.dtype not in DTYPES:
        raise UsageError(f"unknown dtype '{options.dtype}': choose from {', '.join(DTYPES)}")
    if options.layout not in LAYOUTS:
        raise UsageError(f"unknown layout '{options.layout}': choose from {', '.join(LAYOUTS)}")
    check_side_by_side("--workers", options.workers)
    check_engine(options.engine, options.address)
    if options.engine == "ray" and options.workers > 1:
        raise UsageError("--workers are processes of this machine, and Ray has its own: leave it out")
    if options.piece_seconds is not None:
        if not options.piece_seconds >= SHORTEST_PIECE:
            raise UsageError(f"--pieces must be at least {SHORTEST_PIECE:g} seconds, not {options.piece_seconds:g}")
        if options.engine == "local" and options.workers == 1:
            raise UsageError("--pieces divides recordings among workers: add --workers N or --engine ray")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: name a folder")


def _look_up(recording: Recording, target: Target, streams: StreamFactory) -> Outcome | None:
    try:
        return look_up(recording, target, streams)
    except InputError:
        return None  # what is wrong with it will be said when it is its turn


def _refuse_conflicts(conflicts: list[Outcome]) -> None:
    if conflicts:
        more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
        raise UsageError(f"{conflicts[0].message}{more}")


def _refuse_clashes(inputs: Selection, target: Target, streams: StreamFactory, spec: FeatureSpec) -> None:
    """Two recordings must not share a file: `a.mp4` and `a.times.mp4` would, in the npy layout; nor is one written
    over."""
    owners: dict[Path, Recording] = {}
    for recording in inputs.recordings:
        for path in target_files(target.layout, target.folder, recording.name, spec, streams.tag_of).paths:
            if owners.setdefault(path, recording) is not recording:
                raise UsageError(
                    f"{owners[path].path} and {recording.path} would both be written to {path}: "
                    "extract them to different folders"
                )
    refuse_overwriting((("--out", path) for path in owners), (recording.path for recording in inputs.recordings))


def _needs_no_engine(recordings: Sequence[Recording], options: ExtractionOptions, streams: StreamFactory) -> bool:
    """Whether this process does everything: there is nothing to do, or nothing to divide."""
    if not recordings or options.engine == "ray":
        return not recordings
    if options.workers == 1:
        return True
    return len(recordings) == 1 and not plan_pieces(recordings[0], streams, options.piece_seconds or PIECE_SECONDS)


def _run(
    recordings: list[Recording],
    target: Target,
    options: ExtractionOptions,
    streams: StreamFactory,
    meter: _Meter,
    wait: bool,
    engine: Engine | None,
) -> Iterator[Outcome]:
    """Outcomes as they come; engine None: this process does the work."""
    if engine is None:
        for recording in recordings:
            outcome = extract_recording(recording, target, streams, meter.watch(recording), wait)
            meter.finish(recording, outcome)
            yield outcome
        return

    def on_seconds(index: int, done: float, total: float | None) -> None:
        meter.watch(recordings[index])(done, total)

    seconds = options.piece_seconds or PIECE_SECONDS
    for index, outcome in extract_in_parallel(recordings, target, streams, engine, wait, on_seconds, seconds):
        meter.finish(recordings[index], outcome)
        yield outcome


class _Meter:
    """Adds up what the recordings report."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        outcomes: dict[str, Outcome],
        started: float,
        on_progress: OnProgress | None,
    ) -> None:
        self._sizes = {recording.name: _size(recording.path) for recording in recordings}
        self._state: dict[str, tuple[float, float]] = {}  # bytes and media seconds of every recording that has begun
        self._total = sum(self._sizes.values())
        self._bytes = float(sum(self._sizes[name] for name in outcomes))
        self._seconds = 0.0
        self._finished = len(outcomes)
        self._started, self._on_progress = started, on_progress

    def watch(self, recording: Recording) -> Callable[[float, float | None], None]:
        """What to call while a recording is under way."""

        def on_seconds(done: float, total: float | None) -> None:
            self._move(recording, min(1.0, done / total) if total else 0.0, done)

        return on_seconds

    def finish(self, recording: Recording, outcome: Outcome) -> None:
        if outcome.status != "busy":
            self._finished += 1
            self._move(recording, 1.0, outcome.seconds if outcome.fresh else 0.0)

    def _move(self, recording: Recording, fraction: float, seconds: float) -> None:
        now = (fraction * self._sizes[recording.name], seconds)
        before = self._state.get(recording.name, (0.0, 0.0))
        self._state[recording.name] = now
        self._bytes += now[0] - before[0]
        self._seconds += now[1] - before[1]
        if self._on_progress is None:
            return
        self._on_progress(
            Progress(
                recordings=len(self._sizes),
                recordings_done=self._finished,
                bytes_total=self._total,
                bytes_done=self._bytes,
                media_seconds=self._seconds,
                elapsed=time.monotonic() - self._started,
                current=recording.name,
            )
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
