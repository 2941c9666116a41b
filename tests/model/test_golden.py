"""Reference numbers: cyclic encodings, parameter counts, and the work of a folded step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.costs.counting import count_macs
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.model.positions.encodings import cyclic_table
from pipelines.untrusted.toml import load_toml

FIGURES = load_toml(Path(__file__).parents[1] / "golden" / "paper_figures.toml")
OAD = {"width": 1024, "heads": 8, "feed_forward": 1024, "window": 64, "classes": 22}
AUDIO = {"input_width": 128, "width": 192, "heads": 16, "feed_forward": 192, "window": 120, "classes": 10}


def test_cyclic_encodings(golden_dir: Path) -> None:
    tables = np.load(golden_dir / "cyclic_positional_encoding.npz")
    for name in tables.files:
        positions, width = (int(part[1:]) for part in name.split("_"))
        np.testing.assert_allclose(cyclic_table(positions, width).numpy(), tables[name], rtol=0, atol=5e-7)


def paper_config(row: dict[str, Any]) -> ModelConfig:
    """The configuration of a continual row (or of trans-b1/b2, which has the same parts)."""
    blocks = int(row["name"][-1])
    if row["name"].startswith(("cotrans", "trans")):
        return ModelConfig(**AUDIO, blocks=blocks, positions=192)
    kind, count = row["positional"].split(", ")
    encoding = "cyclic" if kind == "fixed" else "learned"
    return ModelConfig(**OAD, input_width=row["input"], blocks=blocks, encoding=encoding, positions=int(count))


@pytest.mark.parametrize("row", [r for r in FIGURES["model"] if not r["name"].startswith("oadtr")], ids=str)
def test_parameter_counts(row: dict[str, Any]) -> None:
    with torch.device("meta"):
        model = ContinualTransformer(paper_config({"positional": "", **row}))
    assert sum(parameter.numel() for parameter in model.parameters()) == row["params_exact"]


@pytest.mark.parametrize(
    ("blocks", "class_token_block", "limit"), [(1, None, 10.2e6), (1, 1, 10.2e6), (2, None, 360e6), (3, 1, 790e6)]
)
def test_static_positions_project_no_token_twice(blocks: int, class_token_block: int | None, limit: float) -> None:
    """Per-step MACs at the paper's size, counted while they run: one projection per token, as in design.md."""
    config = ModelConfig(
        **OAD,
        input_width=3072,
        blocks=blocks,
        class_token_block=class_token_block,
        positional="static",
        positions=65,
        norm="pre",
        out_projection_bias=True,
    )
    model = ContinualTransformer(config).eval()
    with torch.inference_mode():
        state = model.initial_state()
        _, state = model.steps(torch.randn(1, 70, 3072), state)
        step = count_macs(lambda: model.step_(torch.randn(1, 3072), state)).total
        window = count_macs(lambda: model(torch.randn(1, 64, 3072))).total
    assert step <= limit
    assert window > {1: 605e6, 2: 1_008e6, 3: 1_429e6}[blocks]
