"""The live view of `cotrans stream`, for terminals."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cotrans_cli.display.console import REMARK, note, result_console
from cotrans_cli.display.half_blocks import HalfBlocks
from cotrans_cli.display.silent_keys import silent_keys
from cotrans_cli.display.stream_bar import StreamBar, stream_bar
from cotrans_cli.display.terminal_text import clock, shortened
from pipelines.features.media import VideoFrame
from pipelines.streaming.output.palette import PALETTE, class_colours

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

    from pipelines.streaming.messages import Remark, SourceEnded
    from pipelines.streaming.output.summary import Statistics
    from pipelines.streaming.playing.pump import MediaItem
    from pipelines.streaming.predicting.prediction import Prediction
    from pipelines.streaming.predicting.stream_model import StreamModel
    from pipelines.streaming.sources.source import StreamSource

# Terminals with sixteen colours have names for theirs. The bright yellow, green and cyan cannot be read on white, and
# the blue that is not bright is the hardest on black.
SIXTEEN = (
    *("cyan", "yellow", "green", "magenta", "bright_blue", "red"),
    *("bright_magenta", "bright_red", "bright_black", "blue"),
)
REFRESHES = 10  # per second
STRIP = 400  # newest predictions that are remembered: the widest terminal
TWO_COLUMNS = 100  # terminal columns from which on two panels stand side by side
LEAST_PICTURE = 4  # lines below which a picture shows nothing
NARROW = 48  # terminal columns below which there is no room for bars
REMARKS = 3  # newest remarks that are shown
NONE = "none of these"
FRAME = 6  # columns that a panel's frame takes of the line at its foot


class PlainObserver:
    """Remarks as lines on stderr; predictions are written by the sinks."""

    def __init__(self, several: bool, bar: StreamBar | None = None) -> None:
        """several: sources play; what is wrong with a single one ends the command, which says so."""
        self._several, self._bar = several, bar

    def begin(self, statistics: Statistics) -> None:
        if self._bar is not None:
            self._bar.begin(statistics)

    def predicted(self, prediction: Prediction) -> None:
        if self._bar is not None:
            self._bar.update()

    def ended(self, event: SourceEnded) -> None:
        if event.error is not None and self._several:
            note(f"cotrans: error: {event.error}")

    def played(self, number: int, item: MediaItem, time: float) -> None:
        pass

    def remark(self, remark: Remark) -> None:
        note(f"{remark.source}: {remark.text}")


@dataclass
class _Shown:
    """What is known of one source."""

    name: str
    model: str | None = None  # where several watch
    newest: Prediction | None = None
    strip: deque[tuple[str | None, bool]] = field(default_factory=lambda: deque(maxlen=STRIP))  # label, warm-up
    over: str | None = None  # "ended" or "failed"
    picture: VideoFrame | None = None  # what is shown now; turned into colours when it is drawn
    error: str | None = None  # what is wrong with it, if it never gave anything
    took: float | None = None  # seconds from the beginning of the stream to its end

    @property
    def state(self) -> str:
        return self.over or ("playing" if self.newest else "waiting")

    def called(self, width: int) -> str:
        """The source, and who watches it; where there is no room, the end of both, which tells them apart."""
        if self.model is None or len(f"{self.name} · {self.model}") <= width:
            return shortened(f"{self.name} · {self.model}" if self.model else self.name, width)
        model = shortened(self.model, max(4, (width - 1) // 2))
        name, _, suffix = self.name.rpartition(".")
        return f"{shortened(name or suffix, max(4, width - 1 - len(model)))}·{model}"


class LiveView:
    """A panel for each source. Predictions only leave their data here; drawing happens in rich's own thread."""

    def __init__(
        self,
        sources: Sequence[StreamSource],
        class_names: Sequence[str],
        console: Console,
        headings: Sequence[str] = (),
        pictures: bool = True,
        paced: bool = True,
    ) -> None:
        """sources: each once for every model. class_names: of all models. headings: what each can hear or see.

        paced: in real time; otherwise rows wait in line, and latency says nothing.
        """
        self._headings, self._pictures, self._paced = tuple(headings), pictures, paced
        # Of several models that watch one source, the first: where panels lie on each other, its picture is for all.
        self._firsts = [source.model == sources[0].model for source in sources]
        self._shown = [_Shown(source.name, source.model) for source in sources]
        colours = PALETTE if console.color_system in ("256", "truecolor") else SIXTEEN
        self._colours = class_colours(class_names, colours)
        self._label_width = max(len(name) for name in class_names)
        self._console = console
        self._statistics: Statistics | None = None
        self._remarks: deque[str] = deque(maxlen=REMARKS)
        self.errors: list[str] = []

    @property
    def empty(self) -> bool:
        """Whether there was never anything to see."""
        return all(shown.newest is None for shown in self._shown)

    # ---- the observer --------------------------------------------------------------------------------------

    def begin(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def predicted(self, prediction: Prediction) -> None:
        shown = self._shown[prediction.source_number]
        shown.newest = prediction
        shown.strip.append((prediction.label, prediction.warmup))

    def played(self, number: int, item: MediaItem, time: float) -> None:
        if self._pictures and isinstance(item, VideoFrame):
            self._shown[number].picture = item

    def ended(self, event: SourceEnded) -> None:
        shown = self._shown[event.number]
        shown.over = "ended" if event.error is None else "failed"
        shown.took = None if self._statistics is None else self._statistics.wall_seconds
        if event.error is not None:
            self.errors.append(str(event.error))
            if shown.newest is None:
                shown.error = str(event.error).removeprefix(f"{event.name}: ")
            else:
                self._remarks.append(str(event.error))

    def remark(self, remark: Remark) -> None:
        self._remarks.append(f"{remark.source}: {remark.text}")

    # ---- drawing -------------------------------------------------------------------------------------------

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.columns import Columns
        from rich.text import Text

        width, height = options.max_width, console.height
        columns = 2 if width >= TWO_COLUMNS and len(self._shown) > 1 else 1
        if self._headings:
            share = (width - 2 * (len(self._headings) - 1)) // len(self._headings)
            parts = [Text(heading, style="dim", no_wrap=True) for heading in self._headings]
            for part in parts:
                part.truncate(share, overflow="ellipsis")
            yield Text("; ", style="dim", no_wrap=True).join(parts)
            height -= 1
        room = (height - REMARKS - 1) * columns
        tall = len(self._top(self._shown[0])) + 5
        if width < NARROW or tall * len(self._shown) > max(room, tall):
            yield from self._lines(width, height - REMARKS - 1)
        else:
            drawn = self._firsts if columns == 1 else [True] * len(self._shown)
            spare = (room - tall * len(drawn)) // sum(drawn)  # lines that are left for each picture
            wide = width if columns == 1 else (width - 1) // 2
            panels = [self._panel(number, wide, spare if drawn[number] else 0) for number in range(len(drawn))]
            if columns == 1:
                yield from panels
            else:
                yield Columns(panels, padding=(0, 1), width=wide)
        for remark in list(self._remarks):
            yield Text(remark, style=REMARK, overflow="ellipsis", no_wrap=True)

    def _panel(self, number: int, width: int, spare: int) -> RenderableType:
        """spare: lines that a picture may take."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        shown = self._shown[number]
        inner = width - 4
        head = Text(shown.called(max(8, width - 22)), style="bold")
        foot = self._foot(number, width)
        body: list[RenderableType] = [Text(shown.error, style=REMARK)] if shown.error else []
        if not body:
            if shown.picture is not None and self._colourful and spare >= LEAST_PICTURE:
                body.append(HalfBlocks(shown.picture.image, inner, spare))
            named = shown.newest is not None and shown.newest.label is not None
            body += [self._bar(label, score, inner, named) for label, score in self._top(shown)]
            body += [Text(), self._strip(shown, inner), self._numbers(number, inner)]
        return Panel(
            Group(*body),
            title=head,
            title_align="left",
            subtitle=foot,
            subtitle_align="right",
            width=width,
            border_style="red" if shown.over == "failed" else "dim" if shown.over else "none",
        )

    def _foot(self, number: int, width: int) -> str:
        """How far a source is and what it does: what there is no room for is left out, not cut off."""
        shown = self._shown[number]
        times = [self._progress(number, left) for left in (True, False)] if shown.newest else [""]
        doing = [shown.state]
        if shown.state == "playing":
            warming = "warming up" if shown.newest and shown.newest.warmup else ""
            none = NONE if shown.newest and shown.newest.label is None else ""
            doing = [" · ".join(part for part in (warming, none) if part), none]
        choices = ["  ".join(part for part in (time, state) if part) for state in doing for time in times]
        return next((foot for foot in choices if len(foot) <= width - FRAME), choices[-1])

    def _progress(self, number: int, left: bool) -> str:
        """Where a source is: of a file also how far, and, with `left`, how long it takes still."""
        newest, statistics = self._shown[number].newest, self._statistics
        at = clock(newest.time) if newest else ""
        counts = None if statistics is None else statistics.sources[number]
        if counts is None or not counts.length or self._shown[number].over:
            return at
        share = min(1.0, counts.seconds / counts.length)
        whole = f"{at} of {clock(counts.length)} · {100 * share:.0f} %"
        pace = counts.seconds / max(statistics.wall_seconds, 1e-6) if statistics else 0.0
        return f"{whole} · {clock((counts.length - counts.seconds) / pace)} left" if left and pace > 0 else whole

    @property
    def _colourful(self) -> bool:
        return not self._console.no_color and self._console.color_system is not None

    def _top(self, shown: _Shown) -> list[tuple[str, float]]:
        if shown.newest is None:
            return [("", 0.0)] * 3
        return list(shown.newest.top)

    def _bar(self, label: str, score: float, width: int, named: bool) -> Text:
        """named: the best of them is the answer; where none of them is, they are grey."""
        from rich.text import Text

        names = min(self._label_width, max(8, width // 3))
        room = max(4, width - names - 10)
        colour = self._colours.get(label, "none") if named else "dim"
        line = Text(f"{shortened(label, names):{names}} ", style=f"bold {colour}" if named else colour)
        line.append(_blocks(score, room), style=colour)
        line.append(f" {100 * score:6.1f} %" if label else "")
        return line

    def _strip(self, shown: _Shown, width: int) -> Text:
        """The newest predictions, the newest last; letters where the terminal has no colours."""
        from rich.text import Text

        line = Text(no_wrap=True)
        plain = not self._colourful
        newest = list(shown.strip)[-width:]
        for label, warmup in newest:
            if label is None:
                line.append("·", style="dim")
            elif plain:
                line.append(label[0].lower() if warmup else label[0].upper())
            else:
                line.append("▒" if warmup else "█", style=self._colours[label])
        return line

    def _numbers(self, number: int, width: int) -> Text:
        from rich.text import Text

        statistics = self._statistics
        if statistics is None or self._shown[number].newest is None:
            return Text("…", style="dim")
        counts = statistics.sources[number]
        took = self._shown[number].took or statistics.wall_seconds
        pace = counts.seconds / max(took, 1e-6)
        p50, p95 = (1e3 * counts.latency.percentile(percent) for percent in (50, 95))
        latency = [f"latency {p50:.0f} / {p95:.0f} ms (p50/p95)"] if self._paced else []
        text = " · ".join([f"× {pace:.2f} real time", *latency, f"dropped {counts.dropped}"])
        if len(text) > width:
            text = f"× {pace:.2f} · {p50:.0f}/{p95:.0f} ms p50/p95 · dropped {counts.dropped}"
        if counts.reconnects:
            text += f" · reconnected {counts.reconnects}"
        return Text(text, style="dim", overflow="ellipsis", no_wrap=True)

    def _lines(self, width: int, room: int) -> Iterator[Text]:
        """A line for each source; where there are too many, for those that play, and how many others there are."""
        from rich.text import Text

        numbers = list(range(len(self._shown)))
        if len(numbers) > room:
            order = {"playing": 0, "failed": 1, "waiting": 2, "ended": 3}
            numbers = sorted(sorted(numbers, key=lambda number: order[self._shown[number].state])[: room - 1])
        yield from (self._line(number, width) for number in numbers)
        if hidden := Counter(shown.state for number, shown in enumerate(self._shown) if number not in numbers):
            counts = ", ".join(f"{count} {state}" for state, count in hidden.items())
            yield Text(f"… and {hidden.total():,} more: {counts}", style="dim", overflow="ellipsis", no_wrap=True)

    def _line(self, number: int, width: int) -> Text:
        """One source in one line, where there is no room for panels."""
        from rich.text import Text

        shown = self._shown[number]
        line = Text(no_wrap=True, overflow="ellipsis")
        room = min(20, max(6, width // 4))
        line.append(f"{shown.called(room):{room}} ", style="bold")
        if shown.newest is None:
            line.append(shown.error or shown.state, style=REMARK if shown.error else "dim")
            return line
        label, score = shown.newest.top[0]
        line.append(f"{clock(shown.newest.time)} ", style="dim")
        names = min(self._label_width, room)
        if shown.newest.label is None:
            line.append(f"{shortened('–', names):{names}}        ", style="dim")
        else:
            line.append(f"{shortened(label, names):{names}} {100 * score:4.0f} % ", style=self._colours[label])
        if shown.over and line.cell_len + len(shown.over) <= width:  # left out, not cut off
            line.append(f"{shown.over} ", style="dim")
        line.append_text(self._strip(shown, max(0, width - line.cell_len)))
        return line


@contextmanager
def observing(
    live: bool,
    sources: Sequence[StreamSource],
    models: Sequence[StreamModel],
    pictures: bool = True,
    bar: bool = False,
    paced: bool = True,
) -> Iterator[PlainObserver | LiveView]:
    """Who watches the stream: the live view, or somebody who passes remarks on. sources: each once for every model.

    bar: without a live view, a bar of progress on stderr. paced: in real time.
    """
    if not live:
        with stream_bar(bar) as progress:
            yield PlainObserver(len(sources) > 1, progress)
        return
    from cotrans_cli.display.steady_live import SteadyLive

    console = result_console()
    names = [name for model in models for name in model.class_names]
    view = LiveView(sources, names, console, [model.described for model in models], pictures, paced)
    live_options: Any = {"refresh_per_second": REFRESHES, "redirect_stderr": False, "vertical_overflow": "crop"}
    with silent_keys(), SteadyLive(view, console=console, **live_options) as drawing:
        yield view
        drawing.transient = view.empty
    if len(sources) > 1:
        for error in view.errors:  # in full: the view cuts them off at its edge
            note(f"cotrans: error: {error}")


def can_show() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    console = result_console()
    return console.is_terminal and not console.is_dumb_terminal


def _blocks(share: float, width: int) -> str:
    """A bar in eighths of a character."""
    eighths = round(share * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[part].strip()).ljust(width)
