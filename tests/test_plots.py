"""Figures: written whole, in the format that the name says, and refused in one line otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import InputError, UsageError
from pipelines.plots import CostPoint, plot_confusion, plot_score_against_macs, plot_timeline

POINTS = [
    CostPoint("OadTR-b1", 605.5e6, 0.563, 0.002, "regular"),
    CostPoint("CoOadTR-b1", 9.6e6, 0.561, 0.007, "continual"),
]


def test_score_against_macs_names_every_model(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    plot_score_against_macs(path, POINTS, "mAP", "THUMOS14")
    text = path.read_text(encoding="utf-8")
    for label in ("OadTR-b1", "CoOadTR-b1", "continual", "MACs per prediction"):
        assert f"<!-- {label} -->" in text


def test_confusion_shows_shares_of_the_true_class(tmp_path: Path) -> None:
    path = tmp_path / "confusion.svg"
    plot_confusion(path, np.array([[3, 1], [0, 0]]), ["yes", "no"], "two classes")
    text = path.read_text(encoding="utf-8")
    for label in ("75", "25", "yes", "no", "true", "predicted"):
        assert f"<!-- {label} -->" in text


def test_a_timeline_shows_what_happens_and_what_is_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "timeline.svg"
    truth = np.zeros((6, 3), dtype=np.bool_)
    truth[2:4, 1] = True
    scores = np.tile(np.array([0.1, 0.2, 0.9]), (6, 1))
    plot_timeline(path, 0.5, scores, truth, ["run", "jump", "dive"], "a video")
    text = path.read_text(encoding="utf-8")
    for label in ("jump", "dive", "seconds", "a video (shaded: truth)"):
        assert f"<!-- {label} -->" in text
    assert "<!-- run -->" not in text


def test_a_timeline_of_one_frame_is_a_frame_wide(tmp_path: Path) -> None:
    path = tmp_path / "timeline.svg"
    plot_timeline(path, 7.0, np.array([[0.9]]), np.array([[True]]), ["run"], "a video")
    assert "<!-- 7 -->" in path.read_text(encoding="utf-8")  # the axis reaches its end


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_formats(tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = tmp_path / f"figure.{suffix}"
    plot_score_against_macs(path, POINTS, "mAP", "THUMOS14")
    assert path.read_bytes().startswith(magic)


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.png, \.svg, \.pdf"):
        plot_score_against_macs(tmp_path / "figure.gif", POINTS, "mAP", "THUMOS14")
    with pytest.raises(InputError, match="no model to draw"):
        plot_score_against_macs(tmp_path / "figure.png", [], "mAP", "THUMOS14")
    with pytest.raises(InputError, match="without a count of MACs"):
        plot_score_against_macs(tmp_path / "figure.png", [CostPoint("x", 0, 0.5)], "mAP", "THUMOS14")
    assert list(tmp_path.iterdir()) == []
