"""What the Python of a page takes for granted."""

PREAMBLES: dict[str, str] = {
    "docs/flops.md": """
import torch
from pipelines.model import ContinualTransformer
from pipelines.model.presets import preset
model = ContinualTransformer(preset("cotrans-b1")).eval()
window, token, state = torch.randn(1, 120, 128), torch.randn(1, 128), model.initial_state(1)
""",
    "docs/export.md": """
import numpy as np
np.save("rows.npy", np.random.default_rng(0).normal(size=(4, 584)).astype(np.float32))
""",
}
