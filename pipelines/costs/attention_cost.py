"""What one step of attention costs, by the paper's formulas (appendix A.1), equation by equation.

Units: multiplications, additions and exponentials per step; numbers and bytes of memory. n is the window, d the width
of all heads together; h heads cost h times what one of width d / h costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pipelines.errors import ConfigurationError

Kind = Literal["regular", "retroactive", "single_output"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BYTES_PER_NUMBER = 4  # float32


@dataclass(frozen=True)
class Operations:
    """A count of arithmetic operations."""

    multiplications: int
    additions: int
    exponentials: int

    @property
    def total(self) -> int:
        return self.multiplications + self.additions + self.exponentials

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.multiplications + other.multiplications,
            self.additions + other.additions,
            self.exponentials + other.exponentials,
        )

    def __mul__(self, times: int) -> Operations:
        return Operations(self.multiplications * times, self.additions * times, self.exponentials * times)


@dataclass(frozen=True)
class Equation:
    """One row of the paper's tables of operations."""

    name: str
    formula: str
    operations: Operations  # of all heads


@dataclass(frozen=True)
class AttentionCost:
    """One kind of attention at one size."""

    kind: Kind
    n: int
    d: int
    heads: int
    equations: tuple[Equation, ...]
    state_numbers: int  # kept from step to step
    peak_numbers: int  # state, and everything that exists at once within a step
    reduction: float  # total operations of regular attention / of this one

    @property
    def operations(self) -> Operations:
        return sum((row.operations for row in self.equations), Operations(0, 0, 0))

    @property
    def state_bytes(self) -> int:
        return BYTES_PER_NUMBER * self.state_numbers

    @property
    def peak_bytes(self) -> int:
        return BYTES_PER_NUMBER * self.peak_numbers


def attention_costs(n: int, d: int, heads: int = 1) -> tuple[AttentionCost, ...]:
    """Regular, retroactive and single-output attention on a window of n tokens of width d."""
    check_sizes(n, d, heads)
    regular = sum((row.operations for row in _equations("regular", n, d, heads)), Operations(0, 0, 0))
    return tuple(_cost(kind, n, d, heads, regular.total) for kind in KINDS)


def check_sizes(n: int, d: int, heads: int) -> None:
    """Refuse what is no attention."""
    for name, value in (("n", n), ("d", d), ("heads", heads)):
        if value < 1:
            raise ConfigurationError(f"{name} must be at least 1, not {value}")
    if d % heads:
        raise ConfigurationError(f"d = {d} is not divisible by heads = {heads}: choose heads that divide it")


def _cost(kind: Kind, n: int, d: int, heads: int, regular_total: int) -> AttentionCost:
    equations = _equations(kind, n, d, heads)
    state, peak = _memory(kind, n, d, heads)
    total = sum(row.operations.total for row in equations)
    return AttentionCost(kind, n, d, heads, equations, state, peak, regular_total / total)


def _equations(kind: Kind, n: int, d: int, heads: int) -> tuple[Equation, ...]:
    """The rows of tables 5, 6 and 7: for one head, times the heads."""
    w = d // heads
    rows: list[tuple[str, str, tuple[int, int, int]]]
    if kind == "regular":
        rows = [
            ("Eq. 1.1", "D⁻¹ A V", (n * n * w + n * w, n * w * (n - 1), 0)),
            ("Eq. 1.2", "A = exp(Q Kᵀ / √d)", (n * n * w + n * w, n * n * (w - 1), n * n)),
            ("Eq. 1.3", "D = diag(A 1ᵀ)", (0, n * (n - 1), 0)),
        ]
    elif kind == "retroactive":
        rows = [
            (
                "Eq. 2",
                "d of the old rows: − exp(Q k_oldᵀ) + exp(Q k_newᵀ)",
                (2 * (n - 1) * w, 2 * (n - 2) * w + 2 * (n - 1), 2 * (n - 1)),
            ),
            (
                "Eq. 3",
                "d of the new row: exp(q_new Kᵀ / √d) 1ᵀ",
                (n * w + n + w, n * w + (n - 1) + w, n),
            ),
            (
                "Eq. 4",
                "A V of the old rows: − exp(Q k_oldᵀ) v_old + exp(Q k_newᵀ) v_new",
                (2 * (n - 1) * w, 2 * (n - 1) * w, 0),
            ),
            ("Eq. 5", "A V of the new row", (n * w, (n - 1) * w, 0)),
            ("Eq. 6", "d⁻¹ ⊙ A V", (n * w + n, 0, 0)),
        ]
    else:
        rows = [
            ("Eq. 7.1", "a V / a 1ᵀ", (n * w + w, (n - 1) * w + n - 1, 0)),
            ("Eq. 7.2", "a = exp(q Kᵀ / √d)", (n * w + w, n * (w - 1), n)),
        ]
    return tuple(Equation(name, formula, Operations(*counts) * heads) for name, formula, counts in rows)


def _memory(kind: Kind, n: int, d: int, heads: int) -> tuple[int, int]:
    """Numbers of state and at the peak of a step, where the new q, k, v (3d) and the outputs exist too."""
    if kind == "regular":
        state = 3 * (n - 1) * d  # Q, K, V of the earlier tokens
        return state, state + 3 * d + heads * (n * n + n) + n * d  # A, D, outputs
    if kind == "retroactive":
        state = 4 * (n - 1) * d + 2 * d + (n - 1) * heads  # Q, K, V, A V; the leaving k and v; row sums
        columns = heads * (2 * (n - 1) + n)  # exponentials of the old and of the new key, and of the new row
        return state, state + 3 * d + columns + n * d
    state = 2 * (n - 1) * d  # K, V of the earlier tokens
    return state, state + 3 * d + heads * n + d
