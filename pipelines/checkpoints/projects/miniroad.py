"""MiniROAD: the official checkpoints, bare state dicts that say everything but the window of training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.checkpoints.checkpoint import empty_model
from pipelines.checkpoints.foreign_files.imported import Hints, Imported, Outputs, Reference
from pipelines.checkpoints.foreign_files.key_table import expand, rename
from pipelines.checkpoints.foreign_files.source_file import SourceFile
from pipelines.errors import CheckpointError, UsageError
from pipelines.model.base_config import BaseConfig
from pipelines.model.recurrent_config import RecurrentConfig

EMBEDDING = "layer1.0.weight"
STATE = "gru.weight_hh_l0"
CLASSIFIER = "f_classification.0.weight"
_KINDS = ("weight", "bias")
MODEL = {
    f"{theirs}.{kind}": f"{ours}.{kind}"
    for theirs, ours in (
        ("layer1.0", "embedding.linear"),
        ("layer1.1", "embedding.norm"),
        ("f_classification.0", "classifier"),
    )
    for kind in _KINDS
}
LAYER = {
    f"gru.{kind}_{source}_l{{block}}": f"gru.{kind}_{source}_l{{block}}" for kind in _KINDS for source in ("ih", "hh")
}


def recognise(keys: Collection[str]) -> bool:
    """Whether these are the keys of a MiniROAD."""
    return EMBEDDING in keys and any(key.startswith("gru.") for key in keys)


def read(source: SourceFile, hints: Hints) -> Imported:
    """A MiniROAD as one of our models."""
    weights, path = source.weights, source.path
    hints.refuse_others((), "a MiniROAD, which says everything itself,")
    if "anticipation_layer.0.weight" in weights:
        raise CheckpointError(
            f"{path} is an anticipation model, which predicts frames to come (it has anticipation_layer.0.weight): not "
            "supported yet"
        )
    missing = [key for key in (STATE, CLASSIFIER) if key not in weights]
    if missing:
        raise CheckpointError(f"{path} looks like a MiniROAD, but lacks {', '.join(missing)}")
    flat = [key for key in (EMBEDDING, STATE, CLASSIFIER) if weights[key].dim() != 2]
    if flat:
        raise CheckpointError(f"{path} looks like a MiniROAD, but its {flat[0]} is no matrix")
    embedding, inputs = weights[EMBEDDING].shape
    config = RecurrentConfig(
        input_width=inputs,
        embedding=embedding,
        width=weights[STATE].shape[1],
        layers=sum(key.startswith("gru.weight_ih_l") for key in weights),
        classes=weights[CLASSIFIER].shape[0],
    )
    shapes = {name: tuple(value.shape) for name, value in empty_model(config).state_dict().items()}
    # The initial state, which some versions save; the forward pass begins at zero.
    dropped = {"h0": "zeros"} if "h0" in weights and not bool(weights["h0"].any()) else {}
    renamed = rename(weights, {**MODEL, **expand(LAYER, config.layers)}, dropped, shapes, path)
    return Imported.of(
        renamed,
        kind=f"MiniROAD, GRU of {config.layers} layer{'s' * (config.layers > 1)}",
        config=config,
        reference=MiniroadReference(weights, config.layers),
    )


@dataclass(frozen=True)
class MiniroadReference:
    """MiniROAD's own forward pass, with the equations of its GRU written out. weights: by MiniROAD's names."""

    weights: Mapping[str, Tensor]
    layers: int

    def changed(self, config: BaseConfig, weights: Mapping[str, Tensor]) -> Reference:
        raise UsageError("a MiniROAD converts as it is: leave --mode and --drop-decoder out")

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """The newest token of each of the windows (B, T, input_width), which begin with their streams."""
        return Outputs(self._scores(windows)[:, -1], None)

    def along(self, stream: Tensor, steps: Sequence[int]) -> Iterator[Outputs]:
        """The outputs at the given steps of a stream (T, input_width)."""
        scores = self._scores(stream.unsqueeze(0))
        yield from (Outputs(scores[:, step], None) for step in steps)

    def _scores(self, tokens: Tensor) -> Tensor:
        """(B, T, input_width) to (B, T, classes)."""
        rows = self._linear(tokens, "layer1.0")
        width = rows.shape[-1:]
        rows = F.relu(F.layer_norm(rows, width, self.weights["layer1.1.weight"], self.weights["layer1.1.bias"]))
        for layer in range(self.layers):
            rows = self._layer(rows, layer)
        return self._linear(F.relu(rows), "f_classification.0")

    def _layer(self, rows: Tensor, layer: int) -> Tensor:
        """One layer of the GRU over (B, T, width): r and z gate, n is new, h = (1 - z) n + z h."""
        source, own = (
            (self.weights[f"gru.weight_{part}_l{layer}"], self.weights[f"gru.bias_{part}_l{layer}"])
            for part in ("ih", "hh")
        )
        state = rows.new_zeros(rows.shape[0], own[0].shape[1])
        states = []
        for row in rows.unbind(1):
            given_r, given_z, given_n = F.linear(row, *source).chunk(3, dim=-1)
            kept_r, kept_z, kept_n = F.linear(state, *own).chunk(3, dim=-1)
            reset, update = torch.sigmoid(given_r + kept_r), torch.sigmoid(given_z + kept_z)
            new = torch.tanh(given_n + reset * kept_n)
            state = (1 - update) * new + update * state
            states.append(state)
        return torch.stack(states, dim=1)

    def _linear(self, rows: Tensor, name: str) -> Tensor:
        return F.linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])
