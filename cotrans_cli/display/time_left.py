"""The column of a bar that says how long it takes still, in the words of all commands: 0:01:02 left."""

from __future__ import annotations

from rich.progress import Task, TimeRemainingColumn
from rich.table import Column
from rich.text import Text


class TimeLeft(TimeRemainingColumn):
    """Nothing where it is not known how much there is to do."""

    def __init__(self, before: str = "", after: str = "") -> None:
        """before, after: what sets it off from its neighbours."""
        super().__init__(table_column=Column(no_wrap=True))
        self._before, self._after = before, after

    def render(self, task: Task) -> Text:
        time = super().render(task)
        return Text.assemble(self._before, time, " left", self._after) if time else time
