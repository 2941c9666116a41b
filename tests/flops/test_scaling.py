"""Sweeps over n and d, their ranges, and the figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.costs.attention_cost import attention_costs
from pipelines.costs.model_cost import model_cost
from pipelines.errors import ConfigurationError, UsageError
from pipelines.flops.scaling import parse_values, sweep, sweep_model
from pipelines.flops.scaling_plot import plot_scaling


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16..128", (16, 32, 64, 128)),
        ("16..100", (16, 32, 64, 100)),
        ("3 .. 50*4", (3, 12, 48, 50)),
        ("100..300+100", (100, 200, 300)),
        ("7..7", (7,)),
        ("64,16,64", (16, 64)),
        ("5", (5,)),
    ],
)
def test_ranges_include_both_ends(text: str, values: tuple[int, ...]) -> None:
    assert parse_values(text) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9..2", "ends before it starts"),
        ("0..8", "must start at 1 or more"),
        ("0,8", "must start at 1 or more"),
        ("1..9*1", "does not move on"),
        ("1..9+0", "does not move on"),
        ("1..9999999+1", "more than 1000 values"),
        ("-4..8", "is no range"),
        ("abc", "is no range"),
        ("", "is no range"),
    ],
)
def test_ranges_that_are_none(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_values(text)


def test_a_sweep_varies_one_size() -> None:
    over_n, over_d = sweep("n", (8, 16), 5, 32, 2), sweep("d", (8, 16), 5, 32, 2)
    assert over_n.costs == (attention_costs(8, 32, 2), attention_costs(16, 32, 2))
    assert over_d.costs == (attention_costs(5, 8, 2), attention_costs(5, 16, 2))
    assert [row["n"] for row in over_n.rows(False)] == [8, 8, 8, 16, 16, 16]
    with pytest.raises(UsageError, match="over n or d, not over 'q'"):
        sweep("q", (8,), 5, 32)
    with pytest.raises(ConfigurationError, match="d = 9 is not divisible by heads = 2"):
        sweep("d", (9,), 5, 32, 2)


def test_growth_is_quadratic_for_regular_and_linear_for_continual_attention() -> None:
    small, large = sweep("n", (1000, 2000), 1, 256).costs
    growth = [b.operations.total / a.operations.total for a, b in zip(small, large, strict=True)]
    assert growth == pytest.approx([4, 2, 2], rel=0.01)


def test_a_model_can_be_swept_too() -> None:
    sweep = sweep_model("cotrans-b2", "n", (8, 300), {"width": 32, "heads": 4})
    assert [cost.config.window for cost in sweep.costs] == [8, 300]
    assert sweep.costs[1] == model_cost(sweep.costs[1].config)
    assert sweep.rows(False)[0]["n"] == 8


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_figure_is_drawn(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"figure.{suffix}"
    values = parse_values("16..256")
    plot_scaling(path, sweep("n", values, 64, 64), sweep("d", values, 64, 64))
    assert path.read_bytes().startswith(start)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_figure_has_labels_and_three_curves_in_each_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    save = Figure.savefig

    def remember(self: Figure, *args: object, **kwargs: object) -> None:
        drawn.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", remember)
    values = parse_values("16..4096")
    plot_scaling(tmp_path / "figure.png", sweep("n", values, 256, 256), sweep("d", values, 256, 256))
    panels = drawn[0].axes
    assert [panel.get_title() for panel in panels] == ["d = 256", "n = 256", "", ""]
    assert [panel.get_xlabel() for panel in panels[2:]] == ["sequence length n", "embedding dimension d"]
    assert [panel.get_ylabel() for panel in panels] == ["FLOPs per step", "", "memory (MiB)", ""]
    assert all(len(panel.lines) == 3 and panel.get_xscale() == panel.get_yscale() == "log" for panel in panels)
    regular = panels[0].lines[0].get_ydata()
    assert list(regular) == [attention_costs(n, 256)[0].operations.total for n in values]
    assert drawn[0].legends[0].get_texts()[0].get_text() == "Regular"
