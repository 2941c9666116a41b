"""How `cotrans flops` shows its reports in a terminal or a pipe: plain aligned columns that can be copied."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cotrans_cli.display.columns import aligned, room
from cotrans_cli.display.console import on_terminal, print_line
from cotrans_cli.display.text_chart import log_chart

if TYPE_CHECKING:
    from pipelines.flops.attention_report import AttentionReport
    from pipelines.flops.model_report import ModelReport
    from pipelines.flops.paper_report import PaperReport
    from pipelines.flops.scaling import ModelSweep, Sweep

KINDS = {"regular": "regular", "retroactive": "retroactive", "single_output": "single-output"}
_MARKERS = {"regular": "R", "retroactive": "c", "single_output": "."}


def show(report: Any, detail: bool) -> None:
    """Print any report."""
    displays: dict[str, Callable[[Any, bool], None]] = {
        "AttentionReport": show_attention,
        "ModelReport": show_model,
        "PaperReport": show_paper,
        "Sweep": show_sweep,
        "ModelSweep": show_model_sweep,
    }
    displays[type(report).__name__](report, detail)


def show_attention(report: AttentionReport, detail: bool) -> None:
    """Three rows, and each of their equations."""
    first = report.costs[0]
    heads = f", {first.heads} heads of {first.d // first.heads}" if first.heads > 1 else ""
    print_line(f"attention, one step: n = {first.n}, d = {first.d}{heads}")
    print_line("counts: the paper's formulas (appendix A.1); memory: float32")
    print_line()
    header = ["", "mul", "add", "exp", "total", "reduction", "state", "state bytes", "peak", "peak bytes"]
    rows = []
    for cost in report.costs:
        sums = cost.operations
        numbers = [sums.multiplications, sums.additions, sums.exponentials, sums.total]
        memory = [cost.state_numbers, cost.state_bytes, cost.peak_numbers, cost.peak_bytes]
        rows.append([KINDS[cost.kind], *map(_count, numbers), _times(cost.reduction), *map(_count, memory)])
    if report.times is not None:
        header += ["time per step", "rate"]
        for row, cost in zip(rows, report.costs, strict=True):
            time = report.times[cost.kind]
            row += [_duration(time.microseconds), f"{time.gigaflops:.2f} GFLOP/s"]
    _columns(header, rows)
    if detail:
        print_line()
        _columns(
            ["", "", "mul", "add", "exp", ""],
            [
                [
                    KINDS[cost.kind],
                    row.name,
                    *map(_count, (row.operations.multiplications, row.operations.additions)),
                    _count(row.operations.exponentials),
                    f"  {row.formula}",
                ]
                for cost in report.costs
                for row in cost.equations
            ],
            text=(0, 1, 5),
        )


def show_model(report: ModelReport, detail: bool) -> None:
    """Summary, reasons, and modules."""
    cost = report.cost
    prediction = "a step" if report.run == "continual" else "a window"
    print_line(report.headline)
    print_line()
    published = "–" if report.published is None else f"{report.published.millions} M"
    counts = [published, *map(_count, (report.work.paper_rule, report.work.macs, report.executed_macs))]
    header = ["MACs for one prediction", "published", "paper_rule", "counted", "executed"]
    _columns(header, [[f"({prediction})", *counts]])
    for reason in report.reasons:
        print_line(f"  published differs: {reason}")
    print_line()
    _columns(
        ["", "MACs", "FLOPs"],
        [
            ["one step of a stream", _count(cost.step.macs), _count(cost.step.flops)],
            ["regular model on the window", _count(cost.window.macs), _count(cost.window.flops)],
            ["reduction", _times(cost.reduction), _times(cost.window.flops / cost.step.flops)],
        ],
    )
    print_line(f"parameters: {_count(cost.parameters)}")
    shared = f", and {_count(cost.constant_bytes)} for all streams together" if cost.constant_bytes else ""
    print_line(f"state: {_count(cost.state_bytes)} bytes per stream{shared}")
    if report.time is not None:
        step, window = report.time.step, report.time.window
        print_line(
            f"measured ({report.time.threads} thread{'s' * (report.time.threads > 1)}, {report.time.precision}): "
            f"step {_duration(step.microseconds)} at {step.gigaflops:.2f} GFLOP/s, window "
            f"{_duration(window.microseconds)} at {window.gigaflops:.2f} GFLOP/s, {_times(report.time.speedup)} faster"
        )
    print_line()
    _modules(report, detail)
    if detail:
        print_line()
        print_line("products that ran in one step:")
        _columns(
            ["operator", "shapes", "calls", "MACs"],
            [[row.operator, row.shapes, str(row.calls), _count(row.macs)] for row in report.executed.step.operators],
            text=(0, 1),
        )


def _modules(report: ModelReport, detail: bool) -> None:
    keys = {"params": "params", "step_macs": "step MACs", "step_flops": "step FLOPs"}
    keys |= {"window_macs": "window MACs", "window_flops": "window FLOPs"}
    if detail:
        keys |= {"step_paper_rule": "step rule", "window_paper_rule": "window rule"}
    rows = [[row["module"], *(_count(row[key]) for key in keys)] for row in report.rows(detail)]
    _columns(["module", *keys.values()], rows)


def show_sweep(report: Sweep, detail: bool) -> None:
    """Growth of total operations and of memory."""
    first = report.costs[0][0]
    held = f"d = {first.d}" if report.axis == "n" else f"n = {first.n}"
    print_line(
        f"attention over {report.axis}, {held}, heads {first.heads}: operations per step, and peak memory in bytes"
    )
    print_line()
    names = [name for kind in KINDS.values() for name in (kind, "memory")]
    header = [report.axis, *names, "retroactive saves", "single-output saves"]
    rows = []
    for value, costs in zip(report.values, report.costs, strict=True):
        cells = [_count(number) for cost in costs for number in (cost.operations.total, cost.peak_bytes)]
        rows.append([str(value), *cells, *(_times(cost.reduction) for cost in costs[1:])])
    _columns(header, rows, text=())
    if on_terminal() and len(report.values) > 1:
        curves = {
            marker: [float(costs[index].operations.total) for costs in report.costs]
            for index, marker in enumerate(_MARKERS.values())
        }
        print_line()
        title = "operations per step: " + ", ".join(f"{_MARKERS[kind]} {name}" for kind, name in KINDS.items())
        for line in log_chart(title, report.values, curves, report.axis, room()):
            print_line(line)


def show_model_sweep(report: ModelSweep, detail: bool) -> None:
    """Growth of a model."""
    print_line(f"{report.model} over {report.axis}: MACs")
    print_line()
    header = [report.axis, "step", "window", "reduction", "params", "state bytes"]
    rows = [
        [
            str(row[report.axis]),
            *map(_count, (row["step_macs"], row["window_macs"])),
            _times(row["reduction"]),
            *map(_count, (row["params"], row["state_bytes"])),
        ]
        for row in report.rows(detail)
    ]
    _columns(header, rows, text=())
    if on_terminal() and len(report.values) > 1:
        curves = {
            "W": [float(cost.window.macs) for cost in report.costs],
            ".": [float(cost.step.macs) for cost in report.costs],
        }
        print_line()
        for line in log_chart("MACs: W window, . step", report.values, curves, report.axis, room()):
            print_line(line)


def show_paper(report: PaperReport, detail: bool) -> None:
    """Published against ours."""
    header = ["model", "setting", "published", "paper_rule", "counted", "off", "params published", "params"]
    rows = []
    for row in report.paper_rows:
        printed, rule = row.published.macs, row.work.paper_rule
        published = "–" if row.published.parameters is None else _count(row.published.parameters)
        cells = [
            f"{row.published.millions} M",
            _count(rule),
            _count(row.work.macs),
            f"{100 * (printed / rule - 1):+.1f} %",
        ]
        rows.append([row.published.name, row.published.label, *cells, published, _count(row.cost.parameters)])
    _columns(header, rows, text=(0, 1))
    if detail:
        for row in report.paper_rows:
            for reason in row.reasons:
                print_line(f"{row.published.name} ({row.published.label}): {reason}")


def csv_text(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV with a header."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().rstrip("\n")


def _columns(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[int] = (0,)) -> None:
    for line in aligned(header, rows, text):
        print_line(line)


def _count(number: int) -> str:
    return f"{number:,}"


def _times(ratio: float) -> str:
    """31×, as the paper rounds; below ten with one decimal."""
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def _duration(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"
