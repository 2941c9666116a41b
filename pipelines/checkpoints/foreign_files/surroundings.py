"""What stands around an encoder in a larger model: input projection, positions, final norm and classifier.

Their names are the user's own, so they are told by shape, and where the shape fits two roles by place in the file:
a state dict lists modules in the order in which they were made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.errors import UsageError

# `pos`, `pos_embed`, `position_embeddings.weight`, `positional_encoding` and the like; the tutorial's buffer is
# `pos_encoder.pe`.
_POSITIONAL = re.compile(
    r"(?:.*\.)?(?:pos(?:ition(?:al)?)?_?(?:emb(?:ed(?:ding)?)?|enc(?:od(?:ing|er))?)?s?(?:\.(?:weight|pe|table))?|pe)"
)


@dataclass(frozen=True)
class Surroundings:
    """Names of modules (without .weight) and of keys; None: not there."""

    input_layer: str | None
    positions: str | None  # key of a table: recycling (T, d), or static (T, d), (1, T, d) or (T, 1, d)
    norm: str | None
    classifier: str | None
    static: bool = False  # positions are places in the window, as ordinary models have them

    def keys(self, weights: Mapping[str, Tensor]) -> set[str]:
        """The keys in the file that belong to these."""
        modules = (self.input_layer, self.norm, self.classifier)
        names = {f"{module}.{kind}" for module in modules if module is not None for kind in ("weight", "bias")}
        return {key for key in weights if key in names or key == self.positions}


def find_surroundings(
    weights: Mapping[str, Tensor], encoder_keys: Iterable[str], width: int, hints: Hints, ordered: bool
) -> Surroundings:
    """Roles of the modules outside the encoder. ordered: whether the file keeps the order of the modules."""
    encoder = set(encoder_keys)
    order = list(weights) if ordered else sorted(weights, key=_natural)
    place = {key: index for index, key in enumerate(order)}
    first = min(place[key] for key in encoder)
    inputs, heads, norms, tables, places = [], [], [], [], []
    for key in order:
        module, _, leaf = key.rpartition(".")
        value = weights[key]
        if key in encoder or leaf == "bias":
            continue
        # Names that begin with a number come from a Sequential, whose numbers are the order.
        before = place[key] < first if ordered or key[:1].isdigit() else None
        if key == hints.positions_key or (hints.positions_key is None and _is_static(key, value, width)):
            places.append(key)
        elif value.dim() == 2 and value.shape[1] == width and _is_recycling(module, leaf):
            tables.append(key)
        elif value.dim() == 1 and leaf == "weight" and value.shape[0] == width and before is False:
            norms.append(module)
        elif value.dim() == 2 and leaf == "weight":
            if value.shape[0] == width and (value.shape[1] != width or before is True):
                inputs.append(module)
            elif value.shape[1] == width and (value.shape[0] != width or before is False):
                heads.append(module)
    if hints.positions_key is not None and hints.positions_key not in places:
        raise UsageError(
            f"--positions-key {hints.positions_key}: the file has no such key; `cotrans info FILE --json` has them"
        )
    if len(places) > 1:
        raise UsageError(
            f"several tables could be the positions: choose one with --positions-key ({', '.join(places)})"
        )
    recycling = tables[0] if len(tables) == 1 else None
    return Surroundings(
        _one(inputs, hints.input_layer, "--input-layer", weights),
        places[0] if places else recycling,
        norms[0] if len(norms) == 1 else None,
        _one(heads, hints.classifier, "--classifier", weights),
        static=bool(places),
    )


def static_table(value: Tensor, width: int) -> Tensor | None:
    """A table of places (T, d) out of (T, d), (1, T, d) or (T, 1, d), batch or sequence first; None: it is none."""
    if value.dim() == 3 and 1 in value.shape[:2]:
        value = value.flatten(0, 1)
    return value if value.dim() == 2 and value.shape[1] == width and value.is_floating_point() else None


def is_positional(key: str) -> bool:
    """Whether a key is called as tables of positions are: `pos`, `pos_embed`, `position_embeddings.weight`, `….pe`."""
    return _POSITIONAL.fullmatch(key) is not None


def _is_static(key: str, value: Tensor, width: int) -> bool:
    return is_positional(key) and static_table(value, width) is not None


def _is_recycling(module: str, leaf: str) -> bool:
    """The continual library's recycling encoding: `….pe.weight` when learned, `….pe.pattern` when fixed."""
    return module.rpartition(".")[2] == "pe" and leaf in ("weight", "pattern")


def _one(candidates: list[str], named: str | None, flag: str, weights: Mapping[str, Tensor]) -> str | None:
    if named is not None:
        if f"{named}.weight" not in weights:
            raise UsageError(f"{flag} {named}: the file has no {named}.weight; `cotrans info FILE --json` has its keys")
        return named
    if len(candidates) > 1:
        raise UsageError(f"several modules could be it: choose one with {flag} ({', '.join(candidates)})")
    return candidates[0] if candidates else None


def _natural(key: str) -> list[tuple[int, int | str]]:
    """Sort key in which 10 comes after 9."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", key) if part]
