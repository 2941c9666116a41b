"""`cotrans flops`: which of the reports the options ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.checkpoints.foreign_files.imported import Hints
    from pipelines.flops.scaling import Sweep
    from pipelines.model.precision import Precision

# What is held while the other size is swept, unless the user says otherwise: the paper's figure.
FIGURE_SIZE = 256
FIGURE_RANGE = "16..4096"


class Report(Protocol):
    """What every report can do."""

    def to_dict(self) -> dict[str, Any]: ...

    def rows(self, detail: bool) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class FlopsOptions:
    """What to count."""

    file: Path | None = None
    model: str | None = None  # a preset
    sizes: Mapping[str, Any] = field(default_factory=dict)  # settings of a model; window, width, heads of attention
    naming: Mapping[str, str] = field(default_factory=dict)  # prefix, input_layer, classifier of a foreign file
    class_token: bool | None = None
    sweep: tuple[str, str] | None = None  # axis and range
    plot: Path | None = None
    paper: bool = False
    measure: bool = False
    precision: Precision = "float32"  # of the model that is measured


def report(options: FlopsOptions) -> Report | None:
    """The report that the options ask for; None where they ask for the figure alone."""
    _check(options)
    if options.paper:
        from pipelines.flops.paper_report import report_paper

        return report_paper()
    if options.file is not None:
        from pipelines.checkpoints.builtin import find_model
        from pipelines.flops.model_report import report_checkpoint

        hints = _hints(options)  # what cannot be meant is said before the file is looked for
        return report_checkpoint(find_model(options.file), hints, options.measure, options.precision)
    if options.model is not None:
        return _model(options, options.model)
    if options.plot is not None:
        from pipelines.flops.scaling_plot import plot_scaling

        over_n, over_d = _sweep(options, "n"), _sweep(options, "d")
        plot_scaling(options.plot, over_n, over_d)
        return None if options.sweep is None else {"n": over_n, "d": over_d}[options.sweep[0]]
    if options.sweep is not None:
        return _sweep(options, options.sweep[0])
    return _attention(options)


def _check(options: FlopsOptions) -> None:
    """Refuse options that do not go together: none is accepted and ignored."""
    subjects = [options.file is not None, options.model is not None, options.paper]
    if sum(subjects) > 1:
        raise UsageError("give one of FILE, --model and --paper")
    if options.paper and (options.sizes or options.class_token is not None):
        raise UsageError("--paper counts the paper's own models: it takes no sizes: leave them out")
    if options.naming and options.file is None:
        raise UsageError(f"{_flags(options.naming)} is about a FILE of another project: name the file, or leave it out")
    attention = not any(subjects)
    others = [name for name in options.sizes if name not in ("window", "width", "heads")]
    if attention and (others or options.class_token is not None):
        flags = _flags(others or ["class_token"])
        raise UsageError(f"{flags} is about a whole model: add --model NAME (attention alone has --n, --d, --heads)")
    if options.plot is not None:
        from pipelines.plots import check_plot_path

        check_plot_path(options.plot)
        if not attention:
            raise UsageError("--plot draws the three attentions: leave FILE, --model and --paper out")
    if options.sweep is not None:
        from pipelines.flops.scaling import AXES, check_axis

        check_axis(options.sweep[0])
        if options.file is not None or options.paper:
            raise UsageError("--sweep goes over attention or over a --model: a file has one size")
        axis = options.sweep[0]
        if AXES[axis] in options.sizes and options.plot is None:
            raise UsageError(f"--sweep {axis} goes over {axis}: leave --{axis} out")
    if options.measure and (options.sweep is not None or options.plot is not None or options.paper):
        raise UsageError("--measure times one size: leave --sweep, --plot and --paper out")
    if options.precision != "float32":
        if attention:
            raise UsageError(f"--precision {options.precision} is of a model's weights: add FILE or --model NAME")
        if not options.measure:
            raise UsageError(f"--precision {options.precision} changes no count, only the time: add --measure")


def _attention(options: FlopsOptions) -> Report:
    from pipelines.flops.attention_report import report_attention

    n, d = options.sizes.get("window"), options.sizes.get("width")
    if n is None or d is None:
        raise UsageError("say what to count: --n N --d D, --model NAME, or a checkpoint FILE")
    return report_attention(n, d, options.sizes.get("heads", 1), options.measure)


def _sweep(options: FlopsOptions, axis: str) -> Sweep:
    from pipelines.flops.scaling import parse_values, sweep

    asked = options.sweep is not None and options.sweep[0] == axis
    values = parse_values(options.sweep[1] if options.sweep is not None and asked else FIGURE_RANGE)
    n, d = (options.sizes.get(name, FIGURE_SIZE) for name in ("window", "width"))
    return sweep(axis, values, n, d, options.sizes.get("heads", 1))


def _model(options: FlopsOptions, name: str) -> Report:
    from pipelines.flops.model_report import report_preset
    from pipelines.flops.scaling import parse_values, sweep_model
    from pipelines.model.presets import preset

    sizes = dict(options.sizes)
    if options.class_token is False:
        if "class_token_block" in sizes:
            raise UsageError("--no-class-token and --class-token-block contradict each other")
        sizes["class_token_block"] = None
    elif options.class_token:
        sizes.setdefault("class_token_block", 1)
    if options.sweep is not None:
        return sweep_model(name, options.sweep[0], parse_values(options.sweep[1]), sizes)
    return report_preset(name, preset(name, **sizes), options.measure, options.precision)


def _hints(options: FlopsOptions) -> Hints:
    """What the user says about a file that does not say it itself."""
    from pipelines.checkpoints.foreign_files.imported import Hints

    known = {item.name for item in fields(Hints)} - {"positions", "encoding"}
    strange = [name for name in options.sizes if name not in known]
    if strange:
        raise UsageError(
            f"{_flags(strange)}: {options.file} has a size of its own, which cannot be changed: leave it out"
        )
    given: dict[str, Any] = {**options.sizes, **options.naming, "class_token": options.class_token}
    return Hints(**given)


_FLAGS = {"window": "--n", "width": "--d", "input_width": "--input"}


def _flags(names: Any) -> str:
    return ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in names)
