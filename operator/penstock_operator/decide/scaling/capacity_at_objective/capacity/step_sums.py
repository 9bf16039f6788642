"""Sums over generation steps, and over the answers that they served. Pure.

The 15 step sums are the products of x = (1, p, d, k, t), row by row of the upper triangle: p prefill tokens in units of
256, d decoding rows, k tokens read from the cache in units of 4096, t seconds (docs/design/runtime.md#service-curve-of-generation).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeGuard

from penstock_operator.measured import is_measured


class StepSums(NamedTuple):
    """The step sums; zeros without steps."""

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
    """Use of steps and cache by sequences, with decay."""

    ends: float = 0.0
    """Completed requests."""
    p: float = 0.0
    """The sums p, d and k of `StepSums` over the same time."""
    d: float = 0.0
    k: float = 0.0
    running: float = 0.0
    """Sum of running sequences over the samples that count them."""
    usage: float = 0.0
    """Sum of the cache usage, as a share, over the same samples."""
    wall: float = 0.0
    """Seconds during which requests waited without interruption, so that steps were consecutive."""
    stepped: float = 0.0
    """Seconds of steps within `wall`."""


NO_STEPS, NO_ANSWERS = StepSums(), AnswerSums()


def parse_steps(values: Sequence[float] | None) -> StepSums | None:
    """Return a pod's step sums; None if they are invalid: too few, negative, NaN or out of range."""
    return StepSums(*values) if _are_sums(values, len(NO_STEPS)) else None


def parse_answers(values: Sequence[float]) -> AnswerSums | None:
    """Return stored answer sums; None if they are invalid."""
    return AnswerSums(*values) if _are_sums(values, len(NO_ANSWERS)) else None


def _are_sums(values: Sequence[float] | None, width: int) -> TypeGuard[Sequence[float]]:
    return values is not None and len(values) == width and all(map(is_measured, values))


def weighted(parts: Iterable[tuple[Sequence[float], float]], width: int) -> list[float]:
    """Return the weighted sum of vectors, with elements of at least 0."""
    total = [0.0] * width
    for values, weight in parts:
        total = [old + weight * new for old, new in zip(total, values, strict=True)]
    return [max(value, 0.0) for value in total]


def add_steps(parts: Iterable[tuple[StepSums, float]]) -> StepSums:
    """Return the weighted sum of step sums."""
    return StepSums(*weighted(parts, len(NO_STEPS)))


def add_answers(parts: Iterable[tuple[AnswerSums, float]]) -> AnswerSums:
    """Return the weighted sum of answer sums."""
    return AnswerSums(*weighted(parts, len(NO_ANSWERS)))
