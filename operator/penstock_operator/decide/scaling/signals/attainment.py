"""How many requests were on time, by the pods' own counters. Pure.

Good is completed within the objectives, the one that most missed; all are those that ended, however, and those refused for
want of room. Requests that the client spoilt are in neither. Counters are differenced per pod UID, so that a pod that
goes takes nothing back, and one that restarts begins anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from penstock_operator.observed import PodSample, measured

Buckets = Sequence[tuple[float, float]]
"""(upper bound in seconds, cumulative count), ascending."""

SILENT_POD_SECONDS = 300.0
"""A pod not heard of for so long is gone."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """What is on time, in milliseconds; None: any."""

    request: int | None = None
    first_token: int | None = None
    """Of requests that generate text, as the next."""
    output_token: int | None = None


@dataclass(frozen=True, slots=True)
class Attainment:
    """Requests of one pool since it was met; both only grow."""

    good: float = 0.0
    total: float = 0.0
    last: Mapping[str, PodSample] = field(default_factory=dict)
    """The newest sample of each pod that was counted."""


def advance(before: Attainment, samples: Iterable[PodSample], objectives: Objectives) -> Attainment:
    """Return the counts with new samples; without an objective every completed request is good."""
    fresh = sorted(
        (one for one in samples if is_new(before, one) and _whole(one)), key=lambda one: one.time
    )
    if not fresh:
        return before
    good, total, last = before.good, before.total, dict(before.last)
    for sample in fresh:
        held = last.get(sample.uid)
        if held is not None and sample.time <= held.time:
            continue
        if held is not None:
            more = _grown(held, sample, objectives)
            good, total = good + more[0], total + more[1]
        last[sample.uid] = sample
    newest = fresh[-1].time
    kept = {uid: one for uid, one in last.items() if newest - one.time <= SILENT_POD_SECONDS}
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


def _grown(before: PodSample, after: PodSample, objectives: Objectives) -> tuple[float, float]:
    """Return (good, all) between two samples of a pod; none where a counter fell: the process began anew."""
    total = (after.requests_settled or 0.0) - (before.requests_settled or 0.0)
    begun, ended = _histograms(before, objectives), _histograms(after, objectives)
    late = [
        (whole - within(now, limit)) - (held - within(then, limit))
        for (then, held, limit), (now, whole, _) in zip(begun, ended, strict=True)
    ]
    completed = ended[0][1] - begun[0][1]
    if total < 0 or completed < 0 or min(late) < 0:
        return 0.0, 0.0
    return min(max(completed - max(late), 0.0), total), total


def _histograms(
    sample: PodSample, objectives: Objectives
) -> tuple[tuple[Buckets, float, float], ...]:
    """Return (histogram, its observations, its limit in seconds); an answer of one token has no time between tokens."""
    told = sample.generation
    tokens = ((), ()) if told is None else (told.first_token_buckets, told.output_token_buckets)
    each = (sample.request_duration_buckets, *tokens)
    limits = (objectives.request, objectives.first_token, objectives.output_token)
    return tuple(
        (one, one[-1][1] if one else 0.0, inf if limit is None else limit / 1000)
        for one, limit in zip(each, limits, strict=True)
    )
