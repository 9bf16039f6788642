"""15 sums over steps of generation, and what answers needed of them. Pure.

The sums are those of the products of x = (1, p, d, k, t), row by row of the upper triangle: p prefill tokens in units of
256, d rows that decode, k tokens read from the cache in units of 4096, t seconds (docs/design/runtime.md#service-curve-of-generation).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock_operator.observed import is_measured


class StepSums(NamedTuple):
    """The sums; all zero where no step was seen."""

    n: float = 0.0
    p: float = 0.0
    d: float = 0.0
    k: float = 0.0
    t: float = 0.0
    pp: float = 0.0
    pd: float = 0.0
    pk: float = 0.0
    pt: float = 0.0
    dd: float = 0.0
    dk: float = 0.0
    dt: float = 0.0
    kk: float = 0.0
    kt: float = 0.0
    tt: float = 0.0


class AnswerSums(NamedTuple):
    """What sequences took of steps and cache, old ones fading."""

    ends: float = 0.0
    """Requests that were completed."""
    p: float = 0.0
    """As `StepSums`, over the same time."""
    d: float = 0.0
    k: float = 0.0
    running: float = 0.0
    """The sum of the sequences that ran, over the samples at which they were counted."""
    usage: float = 0.0
    """The sum of the share of the cache that they held then."""
    wall: float = 0.0
    """Seconds in which requests waited all the time, so that one step followed the other."""
    stepped: float = 0.0
    """How many of them steps took."""


NO_STEPS, NO_ANSWERS = StepSums(), AnswerSums()


def parse_steps(told: Sequence[float] | None) -> StepSums | None:
    """Return the sums that a pod told; None where they are none: too few, negative, NaN, absurd."""
    if told is None or len(told) != len(NO_STEPS):
        return None
    return StepSums(*told) if all(map(is_measured, told)) else None


def weighted(parts: Iterable[tuple[Sequence[float], float]], width: int) -> list[float]:
    """Return the weighted sum of vectors, none of its elements below 0."""
    total = [0.0] * width
    for values, weight in parts:
        total = [old + weight * new for old, new in zip(total, values, strict=True)]
    return [max(one, 0.0) for one in total]


def add_steps(parts: Iterable[tuple[StepSums, float]]) -> StepSums:
    """Return the weighted sum of sums of steps."""
    return StepSums(*weighted(parts, len(NO_STEPS)))


def add_answers(parts: Iterable[tuple[AnswerSums, float]]) -> AnswerSums:
    """Return the weighted sum of answers."""
    return AnswerSums(*weighted(parts, len(NO_ANSWERS)))
