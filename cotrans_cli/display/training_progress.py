"""What a person sees of a training run: a bar with the time that is left, a line for each epoch, a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cotrans_cli.display.console import note, note_if_slow, print_line, status_console
from cotrans_cli.display.line_breaks import broken
from cotrans_cli.display.terminal_text import shortened
from pipelines.wording import counted

if TYPE_CHECKING:
    from rich.progress import Progress

    from pipelines.training.events import EpochDone, Event
    from pipelines.training.fitting.baseline import PerFrameScores
    from pipelines.training.run import RunResult
    from pipelines.training.seeds import SeedsResult

NAMES = {"accuracy": "accuracy", "accuracy_mean": "accuracy (mean)", "accuracy_vote": "accuracy (vote)", "map": "mAP"}

COPYING = "copy of "  # how the name of what is done begins while copies of clips are made
SHORT = {"accuracy": "accuracy", "accuracy_mean": "mean", "accuracy_vote": "vote", "map": "mAP"}  # in a line
ROOM_FOR_ALL, SHORT_BAR = 80, 8  # columns: of the terminal, below which the bar is short and alone with what is left
PREPARING = "preparing the data"
LONGEST = {  # what these take in some epoch, whatever they take in this one
    "rate": "lr 0.00091",
    "seconds": "100.0 s",
    "accuracy": "accuracy 100.00 %",
    "accuracy_mean": "mean 100.00 %",
}
MISSED_LEAST = ("accuracy_vote", "rate", "seconds", "accuracy_mean")  # of that line, in this order


class TrainingProgress:
    """An observer of training: with a bar on a terminal, with plain lines elsewhere."""

    def __init__(self, bar: Progress | None, quiet: bool, on_begun: Callable[[], object] = lambda: None) -> None:
        """on_begun: called at every sign that the data are there."""
        self._bar, self._quiet, self._on_begun = bar, quiet, on_begun
        self._task: Any = None
        self._extraction: Any = None
        self._waiting: Any = None
        self._wait()  # recordings may be mixed for minutes before one is extracted

    def __call__(self, event: Event) -> None:
        from pipelines.training.events import BaselineDone, EpochDone, Remark, SeedBegins, StepDone

        self._on_begun()
        if isinstance(event, (StepDone, EpochDone)):
            self._show_no_more_waiting()
        if isinstance(event, StepDone):
            if self._bar is not None:
                self._move(self._bar, event.epochs, event.epoch - 1 + event.step / event.steps, event.epoch, event.loss)
        elif isinstance(event, EpochDone):
            self._line(epoch_line(event, None if self._bar is None else self._bar.console.width))
        elif isinstance(event, BaselineDone):
            self._line(f"single rows, no memory: {baseline_text(event.scores)}")
        elif isinstance(event, SeedBegins):
            self._close_bar()
            self._wait()
            self._line(f"seed {event.seed} ({event.number} of {event.count})")
        elif isinstance(event, Remark):
            self._line(event.text)

    def on_item(self, done: int, total: int, name: str) -> None:
        """Features of a recording are being extracted, or a copy of it is made."""
        self._show_no_more_waiting()
        copying = name.startswith(COPYING)
        if self._bar is not None:
            if self._extraction is None:
                self._extraction = self._bar.add_task("copies" if copying else "features", total=total, text="")
            room = self._bar.console.width // 3  # more would push the times out; with less, the bar would jump
            shown = shortened(name.removeprefix(COPYING), room)
            self._bar.update(self._extraction, completed=done, total=total, text=f"{shown:{room}}")
            if done == total:
                self._bar.remove_task(self._extraction)
                self._extraction = None
                self._wait()
        elif not self._quiet and copying and done == 0:
            note(f"a changed copy is made of {counted(total, 'clip')}, and kept")
        elif not self._quiet and total > 0 and done and done % 100 == 0:
            note(f"{'copies' if copying else 'features'}: {done} of {total} recordings")

    def _wait(self) -> None:
        """Show that something is done of which nobody tells how far it is, where nothing else is shown."""
        if self._bar is not None and self._waiting is None and self._task is None:
            self._waiting = self._bar.add_task(PREPARING, total=None, text="")

    def _show_no_more_waiting(self) -> None:
        if self._bar is not None and self._waiting is not None:
            self._bar.remove_task(self._waiting)
        self._waiting = None

    def _move(self, bar: Progress, epochs: int, done: float, epoch: int, loss: float) -> None:
        text = f"epoch {epoch:{len(str(epochs))}}/{epochs}  loss {loss:.4f}"
        if self._task is None:
            self._task = bar.add_task("training", total=epochs, text=text)
        bar.update(self._task, completed=done, total=epochs, text=text)

    def _close_bar(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
        self._task = None

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        if self._bar is not None:
            lines = broken(text, self._bar.console.width) if len(text) > self._bar.console.width else [text]
            self._bar.console.print("\n".join(lines), markup=False, highlight=False)
        else:
            note(text)


@contextmanager
def training_progress(quiet: bool) -> Iterator[TrainingProgress]:
    """The observer for as long as a run lasts."""
    console = status_console()
    if quiet:
        yield TrainingProgress(None, quiet)
        return
    if not console.is_terminal:
        with note_if_slow(f"{PREPARING} …") as stop:
            yield TrainingProgress(None, quiet, stop)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from cotrans_cli.display.time_left import TimeLeft

    narrow = console.width < ROOM_FOR_ALL
    columns = (
        TextColumn("{task.description}"),
        BarColumn(SHORT_BAR) if narrow else BarColumn(),
        *([TimeLeft()] if narrow else [TimeElapsedColumn(), TimeLeft("· ", " ·")]),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield TrainingProgress(bar, quiet)


def epoch_line(event: EpochDone, width: int | None = None) -> str:
    """One epoch in one line; where it has only so many columns, without what is missed least (metrics.csv has all)."""
    mark = "*" if event.best else " "  # in front: the end of a line may not be seen
    parts = {"epoch": f"{mark} epoch {event.epoch:3d}", "loss": f"loss {event.train_loss:.3f}"}
    if event.scores is not None:
        parts["loss"] += f" / {event.scores.loss:.3f}"  # of training and of validation
        values = {name: getattr(event.scores, name) for name in NAMES}
        parts |= {name: f"{SHORT[name]} {100 * value:.2f} %" for name, value in values.items() if value is not None}
    parts |= {"rate": f"lr {event.learning_rate:<7.2g}", "seconds": f"{event.seconds:.1f} s"}
    room = {name: max(len(text), len(LONGEST.get(name, ""))) for name, text in parts.items()}
    for part in MISSED_LEAST:
        # By the room that other epochs take: a column that comes and goes cannot be read.
        if width is None or sum(room[name] + 2 for name in parts) - 2 <= width:
            break
        parts.pop(part, None)
    return "  ".join(parts.values())


def print_result(result: RunResult) -> None:
    """The summary of one run."""
    print_line(f"best epoch       {result.best_epoch} of {result.epochs}")
    if result.scores is not None:
        for name in NAMES:
            value = getattr(result.scores, name)
            if value is not None:
                print_line(
                    f"{NAMES[name]:16} {100 * value:.2f} %  ({counted(result.validation_recordings, 'recording')})"
                )
        print_line(f"loss             {result.scores.loss:.4f}")
    if result.baseline is not None:
        print_line(f"single rows      {baseline_text(result.baseline)}")
    print_line(f"parameters       {result.parameters:,}")
    print_line(f"time             {result.seconds:.0f} s for {counted(result.steps, 'step')}")
    print_line(f"checkpoint       {result.folder / 'best.safetensors'}")
    if result.below_baseline:
        note(_below_baseline(result))


def _below_baseline(result: RunResult) -> str:
    """A model that is worse than no memory at all, and whether that says anything."""
    from pipelines.training.fitting.baseline import CHANCE, WHAT_TO_TRY

    clips, count = result.clips_behind, result.validation_recordings
    if 0 < clips <= CHANCE:
        return (
            f"level with a classifier of single rows: it names {counted(clips, 'clip')} more of {count}, which may be "
            "chance; more clips to validate on would tell whether the memory is worth anything"
        )
    return f"no better than a classifier of single rows: the memory is worth nothing yet; try {WHAT_TO_TRY}"


def baseline_text(scores: PerFrameScores) -> str:
    """Both classifiers in one line."""
    return f"{NAMES[scores.metric]} linear {100 * scores.linear:.2f} %, network {100 * scores.network:.2f} %"


def print_seeds(result: SeedsResult) -> None:
    """Mean and standard deviation over the seeds."""
    print_line(f"{len(result.runs)} seeds")
    for name in NAMES:
        for last in (False, True):
            summary = result.mean_deviation(name, last)
            if summary is not None:
                values = ", ".join(f"{100 * value:.2f}" for value in result.values(name, last))
                when = "last epoch" if last else "best epoch"
                print_line(
                    f"{NAMES[name]:16} {100 * summary[0]:.2f} ± {100 * summary[1]:.2f} %  at the {when} ({values})"
                )
    print_line(f"folder           {result.folder}")
