"""The parts that a model's work is made of: how many MACs, how many by the paper's rule, how much else.

Three counts of the same thing:

- macs: multiply-accumulates of the matrix products that run, exactly.
- paper_rule: the paper's way. A linear layer is in · out + out for each row (the in-projection, which has no bias in
  the paper, counts a bias only where there is one); attention counts its multiplications; an activation of width w is
  2w. Norms, positions and residuals are free.
- other: every other arithmetic operation on a number (add, multiply, divide, compare, exp, erf, sqrt) counts one.
  A layer norm is 7w + 4 for each row, a softmax 5 for each score, ReLU 1 and GELU 5 for each number.

FLOPs are 2 · macs + other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What one part of a model does for one prediction."""

    macs: int = 0
    paper_rule: int = 0
    other: int = 0

    @property
    def flops(self) -> int:
        return 2 * self.macs + self.other

    def __add__(self, more: Work) -> Work:
        return Work(self.macs + more.macs, self.paper_rule + more.paper_rule, self.other + more.other)

    def __mul__(self, times: int) -> Work:
        return Work(self.macs * times, self.paper_rule * times, self.other * times)


def linear(rows: int, inputs: int, outputs: int, bias: bool = True, counted_bias: bool = True) -> Work:
    """rows · inputs · outputs. counted_bias: whether the paper's rule adds the outputs."""
    macs = rows * inputs * outputs
    return Work(macs, macs + (rows * outputs if counted_bias else 0), rows * outputs if bias else 0)


def attention(queries: int, keys: int, width: int, heads: int) -> Work:
    """Regular attention of `queries` rows on `keys` rows; with one query it is single-output attention."""
    macs = 2 * queries * keys * width
    scaled = queries * width
    softmax = 5 * queries * keys * heads
    # The paper multiplies queries by 1/√d and the result by the inverse row sums.
    return Work(macs, macs + 2 * queries * width, scaled + softmax)


def activation(rows: int, width: int, kind: str) -> Work:
    return Work(0, 2 * rows * width, rows * width * (1 if kind == "relu" else 5))


def norm(rows: int, width: int) -> Work:
    return Work(other=rows * (7 * width + 4))


def elementwise(numbers: int) -> Work:
    """One addition for each number: residuals, positions."""
    return Work(other=numbers)


def retroactive(slots: int, width: int, heads: int) -> Work:
    """All rows brought up to date by one token (`model/attention/retroactive.py`), none computed anew but the newest.

    Values carry two more columns, so a head of width w multiplies w + 2. Both changes, the new token's and the leaving
    one's, are products with two columns; the newest row is computed in full.
    """
    w = width // heads
    changes = 2 * slots * w + 2 * slots * (w + 2)
    newest = slots * w + slots * (w + 2)
    multiplications = 7 * slots * w + 2 * slots - 3 * w  # the paper's
    # Per row: references and weights 10, masses 6, sums 2(w + 2), error bounds 16, test 6, division w.
    rest = slots * (42 + 3 * w) + 3 * slots + 6 * w + 6
    return Work(changes + newest, multiplications, rest) * heads


def aged(queries: int, keys: int, heads: int) -> Work:
    """A bias by age on the scores."""
    return elementwise(queries * keys * heads)


def turned(rows: int, width: int) -> Work:
    """Rotary positions of `rows` queries or keys: two products and a sum for each number."""
    return Work(other=3 * rows * width)


def recalled(answers: int, classes: int) -> Work:
    """One answer weighed by those of the last steps: see `model/transformer/recall.py`.

    For each class: the softmax 5, the sum of the answers, share and weight 4, and what keeps the probability of
    something at all 8.
    """
    return Work(other=classes * (17 + answers))


def folded(rows: int, width: int, parts: int, pre_norm: bool) -> Work:
    """Putting static positions into `parts` (of query, key, value) of the rows: see `model/positions/folding.py`.

    No matrix product. By the paper's rule, its multiplications: the rows' variances, and their scale.
    """
    numbers = rows * width
    if not pre_norm:
        return Work(0, 0, numbers + 2 * parts * numbers)
    return Work(0, numbers * (1 + parts), numbers + rows * (4 * width + 4) + 3 * parts * numbers)
