"""Which report options ask for, and that no option is ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.costs.executed import build_model
from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.flops.attention_report import AttentionReport
from pipelines.flops.choice import FlopsOptions, report
from pipelines.flops.model_report import ModelReport
from pipelines.flops.paper_report import PaperReport
from pipelines.flops.scaling import ModelSweep, Sweep
from pipelines.model.presets import preset

TINY = {"input_width": 8, "width": 16, "heads": 4, "feed_forward": 8, "window": 6, "classes": 3}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"sizes": {"window": 8, "width": 8}}, AttentionReport),
        ({"sweep": ("n", "8..16")}, Sweep),
        ({"model": "deep", "sizes": TINY}, ModelReport),
        ({"model": "deep", "sizes": {"heads": 4}, "sweep": ("d", "8..16")}, ModelSweep),
        ({"paper": True}, PaperReport),
    ],
)
def test_options_choose_the_report(options: dict[str, Any], kind: type) -> None:
    result = report(FlopsOptions(**options))
    assert isinstance(result, kind)
    assert result.rows(False) and result.rows(True) and result.to_dict()  # type: ignore[attr-defined]


def test_the_figure_alone_and_with_a_table(tmp_path: Path) -> None:
    assert report(FlopsOptions(plot=tmp_path / "a.png")) is None
    both = report(FlopsOptions(plot=tmp_path / "b.svg", sweep=("d", "8..16"), sizes={"window": 32}))
    assert isinstance(both, Sweep)
    assert both.costs[0][0].n == 32
    assert (tmp_path / "a.png").exists() and (tmp_path / "b.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say what to count"),
        ({"sizes": {"window": 8}}, "say what to count"),
        ({"model": "deep", "paper": True}, "one of FILE, --model and --paper"),
        ({"paper": True, "sizes": TINY}, "takes no sizes"),
        ({"sizes": {"window": 8, "width": 8, "blocks": 2}}, "--blocks is about a whole model"),
        ({"sizes": {"window": 8, "width": 8}, "class_token": True}, "--class-token is about a whole model"),
        ({"model": "deep", "naming": {"prefix": "x."}}, "--prefix is about a FILE"),
        ({"model": "deep", "plot": Path("x.png")}, "--plot draws the three attentions"),
        ({"plot": Path("x.gif")}, "cannot draw to x.gif"),
        ({"file": Path("x.pth"), "sweep": ("n", "8..16")}, "a file has one size"),
        ({"sweep": ("n", "8..16"), "sizes": {"window": 8}}, "leave --n out"),
        ({"sweep": ("n", "8..16"), "measure": True}, "--measure times one size"),
        ({"file": Path("x.pth"), "sizes": {"input_width": 8}}, "--input: x.pth has a size of its own"),
        (
            {"model": "oadtr", "class_token": False, "sizes": {"class_token_block": 2}},
            "contradict each other",
        ),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        report(FlopsOptions(**options))


def test_a_class_token_can_be_added_and_taken_away() -> None:
    with_token = report(FlopsOptions(model="oadtr-b2", sizes=TINY, class_token=True))
    without = report(FlopsOptions(model="oadtr", sizes=TINY, class_token=False))
    assert isinstance(with_token, ModelReport) and isinstance(without, ModelReport)
    assert with_token.cost.config.class_token_block == 1
    assert without.cost.config.class_token_block is None


def test_a_checkpoint_of_ours(tmp_path: Path) -> None:
    config = preset("cotrans-b2", **TINY)
    save_checkpoint(tmp_path / "model.safetensors", build_model(config))
    costs = report(FlopsOptions(file=tmp_path / "model.safetensors"))
    assert isinstance(costs, ModelReport)
    assert costs.cost.config == config
    assert costs.to_dict()["macs"] == {
        "published": None,
        "published_exact": None,
        "paper_rule": costs.cost.step.paper_rule,
        "counted": costs.cost.step.macs,
        "executed": costs.cost.step.macs,
    }


@pytest.mark.parametrize(
    ("name", "token"), [("oadtr_b1", False), ("oadtr_b1_cls", True), ("oadtr_b2", False), ("oadtr_decoder", None)]
)
def test_official_checkpoints(golden_dir: Path, name: str, token: bool | None) -> None:
    costs = report(FlopsOptions(file=golden_dir / f"{name}.pth", class_token=token))
    assert isinstance(costs, ModelReport)
    assert costs.executed.step.total == costs.cost.step.macs
    assert costs.executed.window.total == costs.cost.window.macs


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(CheckpointError, match=str(tmp_path / "text.pth")):
        report(FlopsOptions(file=tmp_path / "text.pth"))
    for path in (tmp_path / "absent.pth", tmp_path):
        with pytest.raises(InputError, match=str(path)):
            report(FlopsOptions(file=path))


def test_measured_times_are_there_on_demand() -> None:
    model = report(FlopsOptions(model="cotrans-b1", sizes=TINY, measure=True))
    assert isinstance(model, ModelReport) and model.time is not None
    assert model.time.step.microseconds > 0
    rate = model.cost.step.flops / model.time.step.microseconds / 1e3
    assert model.time.step.gigaflops == pytest.approx(rate)
    attention = report(FlopsOptions(sizes={"window": 8, "width": 8, "heads": 2}, measure=True))
    assert isinstance(attention, AttentionReport) and attention.times is not None
    assert set(attention.times) == {"regular", "retroactive", "single_output"}
