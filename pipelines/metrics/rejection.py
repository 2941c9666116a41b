"""When a model says "none of these", and how sure its probabilities are.

A softmax always names a class, for silence too. What tells known from foreign input is how much evidence there is for
any class at all. Models that were trained with foreign input have an implicit class "none" whose logit is always 0, so
that their evidence, log Σ exp(logits), is the logarithm of the odds of "one of these" against "none". Of models that
never saw foreign input, the highest probability often tells more; and foreign input that is taken for something is
mostly taken for several things at once, so that both together tell most. Which it is, the threshold below which the
answer is "none", and the temperature that makes probabilities honest are fitted once and stand in the checkpoint.

Noise is nearly rain, and nothing like a dog: a class that noise is taken for may ask for more evidence than the others,
and so may the first rows of a stream, which have heard too little to tell such things apart. A model whose rows are
thirty a second is not sure of each of them in the middle of what it knows well: its evidence is the mean over many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError
from pipelines.metrics.probabilities import ScoreKind, probabilities
from pipelines.untrusted.parsing import choice_of

Statistic = Literal["energy", "probability", "both"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
Logits = NDArray[np.floating[Any]]
Values = NDArray[np.float64]

MOST_REJECTED = 0.02  # share of known input that a fitted threshold may turn away
MOST_LOST = 0.05  # the same, to turn some of the silence away
MOST_AT_ALL = 0.2  # the same, where that turns all of it away: of few clips, some are hardly more than noise
MOST_OF_A_CLASS = 0.05  # share of the answers of one class that are turned away because noise is taken for it
ROOM = 1.25  # above the evidence of noise that was tried, for noise that was not (in the logarithm of odds)
MARGIN = 1e-3  # by which a fitted threshold lies above the evidence that it must turn away
TEMPERATURES = np.geomspace(0.25, 4.0, 49)
MOST_OVER = 10_000  # rows
BINS = 10  # of the calibration error
# What the logarithm of the highest probability counts for beside the energy: chosen on the folds of sound-events, where
# foreign sounds that were kept out are turned away more and more often up to here.
CLEARNESS = 3.0


@dataclass(frozen=True)
class Rejection:
    """A model's own rule for "none of these"."""

    statistic: Statistic
    threshold: float  # evidence below it means "none"
    temperature: float = 1.0  # logits are divided by it before they become probabilities
    early: tuple[float, ...] = ()  # thresholds of the first rows of a stream, where they are higher
    by_class: tuple[float, ...] = ()  # thresholds of the classes, where they are higher; empty: all the same
    over: int = 1  # rows, up to the newest one, whose mean evidence counts
    by_row: tuple[tuple[float, ...], ...] = ()  # those of the classes in the first rows of a stream, in their place

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise ConfigurationError(f"rejection by '{self.statistic}': choose from {', '.join(STATISTICS)}")
        if (
            not all(map(math.isfinite, (self.threshold, *self.early, *self.by_class, *chain(*self.by_row))))
            or not 0 < self.temperature < math.inf
        ):
            raise ConfigurationError("a rejection needs finite thresholds and a positive temperature")
        if not 1 <= self.over <= MOST_OVER:
            raise ConfigurationError(f"a rejection counts the evidence of 1 to {MOST_OVER} rows, not of {self.over}")

    def evidence(self, logits: Logits) -> Values:
        """(…, classes) to (…,): how much speaks for any of the classes."""
        return evidence(logits, self.statistic, self.temperature)

    def threshold_of(self, best: int, rows: int | None = None) -> float:
        """The threshold of an answer. best: its class. rows: of the stream so far; None: many."""
        newest = len(self.by_row) if rows is None else max(0, rows - 1)
        classes = self.by_row[newest] if newest < len(self.by_row) else self.by_class
        thresholds = [self.threshold, *classes[best : best + 1]]
        if rows is not None:
            thresholds += self.early[newest : newest + 1]
        return max(thresholds)

    def knows(self, logits: Logits) -> bool:
        """Whether the newest row of a stream is one of the classes. logits: (rows, classes) from its beginning."""
        known = float(self.evidence(logits[-self.over :]).mean())
        return known >= self.threshold_of(int(logits[-1].argmax()), len(logits))

    def probabilities(self, logits: Logits, kind: ScoreKind) -> Values:
        """(…, classes) to (…, classes), honest ones."""
        return probabilities(logits / self.temperature, kind)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Rejection:
        """The inverse of `to_dict`; unknown and missing keys are errors."""
        try:
            if (name := value["statistic"]) not in STATISTICS:
                raise ConfigurationError(f"rejection by '{name}': choose from {', '.join(STATISTICS)}")
            if unknown := set(value) - {field.name for field in fields(cls)}:
                raise ConfigurationError(f"a rejection rule has no {', '.join(sorted(map(str, unknown)))}")
            statistic = choice_of(name, STATISTICS)
            early, by_class = (tuple(map(float, value.get(name, ()))) for name in ("early", "by_class"))  # new in 0.2
            over = int(value.get("over", 1))
            by_row = tuple(tuple(map(float, row)) for row in value.get("by_row", ()))
            return cls(statistic, float(value["threshold"]), float(value["temperature"]), early, by_class, over, by_row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(f"not a rejection rule: {error}") from error


def evidence(logits: Logits, statistic: Statistic, temperature: float = 1.0) -> Values:
    """(…, classes) to (…,)."""
    values = np.asarray(logits, np.float64)
    if statistic == "probability":
        return np.asarray(probabilities(values / temperature, "softmax").max(axis=-1))
    energy = np.asarray(np.logaddexp.reduce(values, axis=-1))
    return energy if statistic == "energy" else energy + CLEARNESS * (values.max(axis=-1) - energy)


def fit_rejection(
    known: Logits,
    labels: NDArray[np.integer[Any]],
    foreign: Logits | None = None,
    always: Logits | None = None,
) -> Rejection:
    """The rule that turns away most foreign input and at most `MOST_REJECTED` of the known.

    known: (n, classes) of held-out input with its labels (n,). foreign: (m, classes) of input of other kinds; without
    any, the share of known input decides alone. always: of input that no model should have a name for (silence), for
    which up to `MOST_LOST` of the known may be turned away, and up to `MOST_AT_ALL` where none of it is left then.
    """
    temperature = fit_temperature(known, labels)
    best: tuple[float, Rejection] | None = None
    for statistic in STATISTICS:
        mine = evidence(known, statistic, temperature)
        threshold = float(np.quantile(mine, MOST_REJECTED))
        if foreign is not None:
            # No higher than it takes: the next person's recordings are less clear than these.
            threshold = min(threshold, float(evidence(foreign, statistic, temperature).max()) + MARGIN)
        if always is not None:
            threshold = max(threshold, _above(evidence(always, statistic, temperature), mine))
        turned_away = [
            float((evidence(logits, statistic, temperature) < threshold).mean())
            for logits in (foreign, always)
            if logits is not None
        ]
        worth = float((mine >= threshold).mean()) + sum(turned_away)
        if best is None or worth > best[0]:
            best = worth, Rejection(statistic, threshold, temperature)
    assert best is not None
    return best[1]


def _above(always: Values, known: Values) -> float:
    """A threshold that turns away all that has no name; where that is not to be had, one that costs little."""
    wanted = float(always.max()) + MARGIN
    return wanted if wanted <= np.quantile(known, MOST_AT_ALL) else float(np.quantile(known, MOST_LOST))


def against_noise(
    rule: Rejection,
    always: Sequence[Logits],
    early: int,
    known: Logits | None = None,
    background: int | None = None,
    settling: int = 0,
    room: float = ROOM,
) -> Rejection:
    """The same rule, with thresholds that noise does not reach, for the first rows and for the classes it is taken for.

    always: (rows, classes) of each recording of silence or noise, from its beginning. early: how many rows are the
    first. known: (n, classes) of held-out input, of whose answers no class may lose more than `MOST_OF_A_CLASS`.
    background: the class that noise is, where there is one. settling: rows in which it takes more evidence than later
    on to tell noise from the classes that it is taken for. room: above the noise that was tried, in these rows.
    """
    if not always:
        return rule
    beginnings = []
    for row in range(early):
        heard = np.array([rule.evidence(logits[row]) for logits in always if len(logits) > row])
        if not len(heard):
            break
        # The next noise may give more evidence than all of these: room for it above the highest.
        beginnings.append(max(rule.threshold, float(2 * heard.max() - np.quantile(heard, 0.75))))
    while beginnings and beginnings[-1] == rule.threshold:
        beginnings.pop()
    rows = [_by_class(rule, always, row, None, background, room) for row in range(early, settling)]
    by_class = _by_class(rule, always, max(early, settling), known, background, ROOM)
    by_row = tuple(rows[:1] * early + rows)
    return replace(rule, early=tuple(beginnings), by_class=by_class, by_row=by_row if any(by_row) else ())


def _by_class(
    rule: Rejection, always: Sequence[Logits], begin: int, known: Logits | None, background: int | None, room: float
) -> tuple[float, ...]:
    """The thresholds of the classes that noise does not reach from the row `begin` on; empty: none is higher."""
    later = np.concatenate([logits[begin:] for logits in always])
    levels, taken = rule.evidence(later), later.argmax(axis=-1)
    by_class = []
    for number in range(later.shape[-1]):
        mine = levels[taken == number]
        threshold = rule.threshold
        if len(mine) and number != background:
            threshold = float(mine.max())
            if rule.statistic != "probability":
                threshold += room
            elif background is not None:  # of a stream: in the logarithm of odds
                threshold /= threshold + (1 - threshold) * math.exp(-room)
        if known is not None and (answers := known[known.argmax(axis=-1) == number]).size:
            threshold = min(threshold, float(np.quantile(rule.evidence(answers), MOST_OF_A_CLASS)))
        by_class.append(max(rule.threshold, threshold))
    return tuple(by_class) if max(by_class) > rule.threshold else ()


def fit_temperature(logits: Logits, labels: NDArray[np.integer[Any]]) -> float:
    """The divisor of the logits with the least cross-entropy on held-out input."""
    values = np.asarray(logits, np.float64)
    rows = np.arange(len(labels))
    losses = [
        float((np.logaddexp.reduce(scaled := values / temperature, axis=-1) - scaled[rows, labels]).mean())
        for temperature in TEMPERATURES
    ]
    return float(TEMPERATURES[int(np.argmin(losses))])


def separation(known: Values, foreign: Values) -> float:
    """The probability that known input has more evidence than foreign input (AUROC); ties count half."""
    order = np.sort(foreign)
    below, through = np.searchsorted(order, known, "left"), np.searchsorted(order, known, "right")
    return float((below + through).mean() / (2 * len(order)))


def calibration_error(scores: Values, right: NDArray[np.bool_]) -> float:
    """Expected calibration error: how far the score of an answer is from the share of right ones, on average.

    scores: (n,) probabilities of the answers, right: (n,) whether they were.
    """
    places = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    total = 0.0
    for place in np.unique(places):
        chosen = places == place
        total += abs(float(scores[chosen].mean()) - float(right[chosen].mean())) * float(chosen.mean())
    return total
