"""GolfDB: golf swings with the frame numbers of eight events, which divide a clip into nine phases.

`swings.csv` has a line for each clip (file, player, fold, the frame of each event, the number of frames); the clips lie
in `clips/`. W. McNally et al., "GolfDB: A Video Database for Golf Swing Sequencing", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.own.media_check import check_media
from pipelines.datasets.published.table_file import read_table
from pipelines.datasets.rows.feature_files import attach_features
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

EVENTS = ("address", "toe_up", "mid_backswing", "top", "mid_downswing", "impact", "mid_follow_through", "finish")
# A phase ends with the event of the same place; the last one goes on to the end of the clip.
PHASES = (
    "setup",
    "takeaway",
    "mid-backswing",
    "late-backswing",
    "downswing",
    "late-downswing",
    "release",
    "follow-through",
    "finish",
)
TABLE = "swings.csv"
SPLITS = ("sources", "players")
TEST_FOLD = "4"
OBTAIN = (
    f"It should contain {TABLE} (file, player, fold, {EVENTS[0]}, …, {EVENTS[-1]}, frames) and the clips in clips/: "
    "GolfDB has them"
)


@dataclass(frozen=True)
class Swing:
    """One line of the table."""

    file: str
    player: str
    fold: str
    events: tuple[int, ...]  # frames, increasing
    frames: int
    line: int


def open(
    root: Path,
    *,
    split: str = "sources",
    fold: str | None = None,
    test_fold: str = TEST_FOLD,
    feature_dir: Path | None = None,
) -> Dataset:
    """The clips in `root`: those of `test_fold` for test, those of `fold` for validation, the others to train on.

    The folds share no source video, but players. With split `players`, clips of players who are in a kept fold are
    left out of training.
    """
    if split not in SPLITS:
        raise UsageError(f"golf has no split '{split}': choose from {', '.join(SPLITS)}")
    swings = read_swings(root / TABLE)
    folds = sorted({swing.fold for swing in swings})
    if fold is not None and fold not in folds:
        raise UsageError(f"golf: no clips of fold '{fold}': there are {listed(folds, most=12)}")
    if fold == test_fold:
        raise UsageError(f"fold '{fold}' cannot be for validation and for test: choose another for one of them")
    kept = {fold: "validation", test_fold: "test"}
    paths = {swing.file: root / "clips" / swing.file for swing in swings}
    missing = [file for file, path in paths.items() if not path.is_file()]
    problems = [f"{len(missing)} clips of {TABLE} are not in clips/, left out: {listed(missing)}"] if missing else []
    durations, damaged = check_media(path for path in paths.values() if path.is_file())
    swings = [swing for swing in swings if durations.get(paths[swing.file])]
    if split == "players":
        held = {swing.player for swing in swings if swing.fold in kept}
        apart = [swing for swing in swings if swing.fold in kept or swing.player not in held]
        problems.append(f"{len(swings) - len(apart)} clips of players who are validated or tested on, left out")
        swings = apart
    if not swings:
        raise InputError(f"dataset golf: no clips in {root}. {OBTAIN}")
    items = [_item(swing, paths[swing.file], durations[paths[swing.file]], kept) for swing in swings]
    dataset = Dataset("golf", "frames", root, PHASES, tuple(items), problems=(*problems, *damaged), ordered=True)
    return attach_features(dataset, feature_dir)


def read_swings(table: Path) -> list[Swing]:
    """The lines of the table, checked."""
    columns = ("file", "player", "fold", *EVENTS, "frames")
    rows = read_table(table, columns, "GolfDB", f". {OBTAIN}")
    return [_swing(table, line, row) for line, row in enumerate(rows, 2)]


def _swing(table: Path, line: int, row: dict[str, str]) -> Swing:
    values = {name: row[name] for name in ("file", "player", "fold")}
    try:
        *events, frames = (int(row[name]) for name in (*EVENTS, "frames"))
    except ValueError as error:
        raise InputError(f"{table}, line {line}: the frames of events must be whole numbers: {error}") from error
    in_order = all(first < second for first, second in zip((0, *events), (*events, frames), strict=True))
    if not in_order:
        raise InputError(f"{table}, line {line}: the events must follow each other and lie within the clip: {events}")
    if Path(values["file"]).name != values["file"]:
        raise InputError(f"{table}, line {line}: '{values['file']}' is not a plain file name")
    return Swing(**values, events=tuple(events), frames=frames, line=line)


def _item(swing: Swing, path: Path, duration: float | None, kept: dict[str | None, str]) -> Item:
    assert duration is not None
    frame = duration / swing.frames  # seconds
    bounds = (0, *swing.events, swing.frames)
    segments = tuple(
        Segment(bounds[phase] * frame, bounds[phase + 1] * frame, phase, f"{TABLE}, line {swing.line}")
        for phase in range(len(PHASES))
    )
    return Item(
        Path(swing.file).stem,
        kept.get(swing.fold, "train"),
        media=path,
        segments=segments,
        duration=duration,
        group=swing.player,
    )
