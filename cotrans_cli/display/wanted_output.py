"""What a user wants to see and keep of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotrans_cli.display.console import note
from cotrans_cli.display.evaluation import print_comparison

if TYPE_CHECKING:
    from pipelines.evaluation.comparison import Comparison


@dataclass(frozen=True)
class WantedOutput:
    """A table in some form, a picture, a file of predictions."""

    form: str  # json, csv, markdown or table
    plot: Path | None
    plot_kind: str
    video: str | None  # of a timeline
    save: Path | None
    quiet: bool
    report: Path | None = None

    def keep(self, inputs: Iterable[Path]) -> None:
        """Refuse to write over what is read, or where nothing can be written; before the work, not after it."""
        from pipelines.files import check_writable, refuse_overwriting

        wanted = (("--plot", self.plot), ("--save", self.save), ("--report", self.report))
        outputs = [(name, path) for name, path in wanted if path]
        refuse_overwriting(outputs, inputs)
        for name, path in outputs:
            check_writable(path, name)

    def remark(self, text: str) -> None:
        """Something that a reader of the figures should know."""
        if not self.quiet:
            note(text)

    def show(self, comparison: Comparison) -> None:
        from pipelines.evaluation.tables.comparison_files import draw_comparison, save_predictions

        print_comparison(comparison, self.form, self.quiet)
        if self.plot is not None:
            draw_comparison(self.plot, comparison, self.plot_kind, self.video)
            note(f"wrote {self.plot}")
        if self.report is not None:
            from pipelines.evaluation.tables.page import write_comparison_page

            write_comparison_page(self.report, comparison)
            note(f"wrote {self.report}")
        if self.save is not None:
            for path in save_predictions(self.save, comparison):
                note(f"wrote {path}")
