"""Requests on time and all, remembered over one window at a time. Pure."""

from dataclasses import dataclass

from penstock_operator.decide.rollback.record import Score

MARKS = 20
"""So many a window: a window's edge is off by a twentieth at most."""


@dataclass(frozen=True, slots=True)
class CounterMark:
    """How far the counters stood at a time."""

    time: float
    good: float
    total: float


def marked(
    marks: tuple[CounterMark, ...], mark: CounterMark, window: float
) -> tuple[CounterMark, ...]:
    """Return the marks with a new one, if it is time for one, and without those older than a window."""
    kept = tuple(one for one in marks if mark.time - one.time <= window * (1 + 1 / MARKS))
    if kept and mark.time - kept[-1].time < window / MARKS:
        return kept
    return (*kept, mark)


def score(since: CounterMark, now: CounterMark) -> Score:
    """Return what came between two marks."""
    return Score(now.good - since.good, now.total - since.total, now.time - since.time)
