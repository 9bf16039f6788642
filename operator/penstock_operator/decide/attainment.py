"""How many requests were on time, by the pods' own counters. Pure.

Good is completed within the `RequestLatency` objective; all are those that ended, however, and those refused for
want of room. Requests that the client spoilt are in neither. Counters are differenced per pod UID, so that a pod that
goes takes nothing back, and one that restarts begins anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from penstock_operator.observed import PodSample, measured

KEPT_SECONDS = 300.0
"""A pod not heard of for so long is gone."""


@dataclass(frozen=True, slots=True)
class Attainment:
    """Requests of one pool since it was met; both only grow."""

    good: float = 0.0
    total: float = 0.0
    last: Mapping[str, PodSample] = field(default_factory=dict)
    """The newest sample of each pod that was counted."""


def advance(
    before: Attainment, samples: Iterable[PodSample], objective_milliseconds: int | None
) -> Attainment:
    """Return the counts with new samples; without an objective every completed request is good."""
    fresh = sorted(
        (one for one in samples if is_new(before, one) and _whole(one)), key=lambda one: one.time
    )
    if not fresh:
        return before
    limit = inf if objective_milliseconds is None else objective_milliseconds / 1000
    good, total, last = before.good, before.total, dict(before.last)
    for sample in fresh:
        held = last.get(sample.uid)
        if held is not None and sample.time <= held.time:
            continue
        if held is not None:
            more = _grown(held, sample, limit)
            good, total = good + more[0], total + more[1]
        last[sample.uid] = sample
    newest = fresh[-1].time
    kept = {uid: one for uid, one in last.items() if newest - one.time <= KEPT_SECONDS}
    return Attainment(good, total, kept)


def is_new(before: Attainment, sample: PodSample) -> bool:
    """Tell whether a sample is newer than the one that its pod was last counted by; most of a round are not."""
    held = before.last.get(sample.uid)
    return held is None or not sample.time <= held.time


def within(buckets: Sequence[tuple[float, float]], limit: float) -> float:
    """Return how many observations of (upper bound, cumulative count) are at most `limit`; linear inside a bucket."""
    low, below = 0.0, 0.0
    for bound, cumulative in buckets:
        if limit <= bound:
            if bound == inf:
                return cumulative if limit == inf else below
            return below + (cumulative - below) * (limit - low) / (bound - low)
        low, below = bound, cumulative
    return below


def _whole(sample: PodSample) -> bool:
    return (
        measured(sample.time) is not None
        and sample.requests_settled is not None
        and bool(sample.request_duration_buckets)
    )


def _grown(before: PodSample, after: PodSample, limit: float) -> tuple[float, float]:
    """Return (good, all) between two samples of a pod; none where a counter fell: the process began anew."""
    total = (after.requests_settled or 0.0) - (before.requests_settled or 0.0)
    early = within(before.request_duration_buckets, limit)
    good = within(after.request_duration_buckets, limit) - early
    if total < 0 or good < 0:
        return 0.0, 0.0
    return min(good, total), total
