"""Attainment: the number of requests within the objectives, from the pods' counters. Pure.

A request is good if it completed within every objective; of several objectives the one missed most often counts, relative to
the share that may miss it: late requests under an objective of 90 percent count a tenth of those under 99 percent. The total
includes every end of a request and refusals for lack of capacity, but no client errors and no batch work. Counters are
differenced per pod UID, so that a pod that goes away subtracts nothing and a restarted pod starts from zero.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.decide.spec.law_settings import AllowedLateShares, LawSettings
from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_operator.measured import measured
from penstock_operator.observed import PodSample

Buckets = Sequence[tuple[float, float]]
"""(upper bound in seconds, cumulative count), ascending."""

ON_TIME_SECONDS = 600.0
"""Window of `OnTime`: long enough for some hundred requests of a quiet pool, short enough to show an incident."""
ON_TIME_MARKS = 20
MIN_RATE_SECONDS = 60.0
"""Time over which a rate is known."""
SILENT_POD_SECONDS = 300.0
"""Time without samples after which a pod is forgotten."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """Latency limits, in milliseconds; None is no limit."""

    request: int | None = None
    first_token: int | None = None
    """Time to first token, of requests that generate text."""
    output_token: int | None = None
    """Time per output token, of requests that generate text."""
    late: AllowedLateShares = field(default_factory=AllowedLateShares)

    @classmethod
    def of(cls, law: LawSettings) -> "Objectives":
        """Return the objectives of the settings in force."""
        return cls(
            law.objective_milliseconds,
            law.first_token_milliseconds,
            law.output_token_milliseconds,
            law.late,
        )

    @property
    def any(self) -> bool:
        """Return whether there is an objective."""
        return (self.request, self.first_token, self.output_token) != (None, None, None)

    @property
    def late_share(self) -> float:
        """Return the smallest share that may miss an objective, 0 to 1, which the counts are compared with."""
        return min(self._late_shares)

    @property
    def terms(self) -> list["ObjectiveTerm"]:
        """Return a term for each limit."""
        late, strictest = self.late, self.late_share
        each = (
            (_request_buckets, self.request, late.request),
            (_first_token_buckets, self.first_token, late.first_token),
            (_output_token_buckets, self.output_token, late.output_token),
        )
        return [
            ObjectiveTerm(read, limit / 1000, strictest / share)
            for read, limit, share in each
            if limit is not None
        ]

    @property
    def _late_shares(self) -> list[float]:
        limits = (self.request, self.first_token, self.output_token)
        shares = (self.late.request, self.late.first_token, self.late.output_token)
        used = [share for limit, share in zip(limits, shares, strict=True) if limit is not None]
        return used or [LATE_SHARE]


class ObjectiveTerm(NamedTuple):
    """One limit of latency."""

    buckets: Callable[[PodSample], Buckets]
    """The histogram that it limits; an answer of one token has no time between tokens."""
    seconds: float
    weight: float
    """Weight of its late requests."""

    def late(self, sample: PodSample) -> float:
        """Return the weighted number of late requests so far."""
        buckets = self.buckets(sample)
        return self.weight * (buckets[-1][1] - within(buckets, self.seconds)) if buckets else 0.0


def _request_buckets(sample: PodSample) -> Buckets:
    return sample.request_duration_buckets


def _first_token_buckets(sample: PodSample) -> Buckets:
    return () if sample.generation is None else sample.generation.first_token_buckets


def _output_token_buckets(sample: PodSample) -> Buckets:
    return () if sample.generation is None else sample.generation.output_token_buckets


class Attainment(NamedTuple):
    """Requests of one pool since the operator started; both counts only grow."""

    good: float = 0.0
    total: float = 0.0
    last: Mapping[str, PodSample] = MappingProxyType({})
    """The newest sample of each pod that was counted."""
    completed: float = 0.0
    """Requests that completed, on time or late, batch work included."""
    tokens: float = 0.0
    """Tokens that were generated."""
    served: float = 0.0
    """Rows of completed requests, or generated tokens, batch work included."""
    batch_served: float = 0.0
    """Those of batch work."""

    def until(self, store_now: float) -> "Attainment":
        """Return the counts with no sample after now by the clock of the samples, which may have been set back."""
        last = {
            uid: replace(sample, time=store_now) if sample.time > store_now else sample
            for uid, sample in self.last.items()
        }
        return self._replace(last=last)


class Throughput(NamedTuple):
    """What a pool delivers per second; None: not observed for long enough."""

    requests_per_second: float | None = None
    """Completed requests."""
    tokens_per_second: float | None = None
    """Generated tokens."""
    batch_share: float | None = None
    """Share of batch work in rows, or generated tokens; None if nothing was served."""


class OnTime(NamedTuple):
    """Attainment and throughput over the last `ON_TIME_SECONDS`."""

    marks: tuple[tuple[float, Attainment], ...] = ()
    """(time, counts without samples), a twentieth of the window apart."""
    share: float | None = None
    """Requests on time over all that ended; None without requests."""
    throughput: Throughput = Throughput()

    def add(self, now: float, counted: Attainment) -> "OnTime":
        """Return the attainment up to now."""
        edge = now - ON_TIME_SECONDS
        later = [place for place, (time, _) in enumerate(self.marks) if time > edge]
        first = later[0] - 1 if later and later[0] > 0 else 0
        marks = self.marks[first:] if later else self.marks[-1:]
        if not marks or now - marks[-1][0] >= ON_TIME_SECONDS / ON_TIME_MARKS:
            marks = (*marks, (now, counted._replace(last=MappingProxyType({}))))
        since, before = marks[0]
        good, total = counted.good - before.good, counted.total - before.total
        share = good / total if total > 0 else None
        seconds = now - since
        if seconds < MIN_RATE_SECONDS:
            return OnTime(marks, share)
        completed, tokens = counted.completed - before.completed, counted.tokens - before.tokens
        served, batch = counted.served - before.served, counted.batch_served - before.batch_served
        batch_share = batch / served if served > 0 else None
        return OnTime(marks, share, Throughput(completed / seconds, tokens / seconds, batch_share))


def advance(before: Attainment, samples: Iterable[PodSample], objectives: Objectives) -> Attainment:
    """Return the counts with new samples; without an objective every completed request is good."""
    fresh = sorted(
        (sample for sample in samples if is_new(before, sample) and _whole(sample)),
        key=lambda sample: sample.time,
    )
    if not fresh:
        return before
    counts, last, terms = before, dict(before.last), objectives.terms
    for sample in fresh:
        previous = last.get(sample.uid)
        if previous is not None and sample.time <= previous.time:
            continue
        if previous is not None:
            counts = _with_growth(counts, previous, sample, terms)
        last[sample.uid] = sample
    newest = fresh[-1].time
    kept = {
        uid: sample for uid, sample in last.items() if newest - sample.time <= SILENT_POD_SECONDS
    }
    return counts._replace(last=kept)


def is_new(before: Attainment, sample: PodSample) -> bool:
    """Return whether a sample is newer than the last one counted of its pod; most samples of a round are not."""
    previous = before.last.get(sample.uid)
    return previous is None or not sample.time <= previous.time


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


def _with_growth(
    counts: Attainment, before: PodSample, after: PodSample, terms: Sequence[ObjectiveTerm]
) -> Attainment:
    """Return the counts with the growth between two samples of a pod; none if a counter fell, because the process restarted."""
    total = (after.requests_settled or 0.0) - (before.requests_settled or 0.0)
    completed = after.request_duration_buckets[-1][1] - before.request_duration_buckets[-1][1]
    late = [term.late(after) - term.late(before) for term in terms]
    if total < 0 or completed < 0 or min(late, default=0.0) < 0:
        return counts
    batch = _growth(before.batch_served, after.batch_served)
    return counts._replace(
        good=counts.good + min(max(completed - max(late, default=0.0), 0.0), total),
        total=counts.total + total,
        completed=counts.completed + _growth(before.requests_completed, after.requests_completed),
        tokens=counts.tokens + max(_tokens(after) - _tokens(before), 0.0),
        served=counts.served + batch + _growth(before.interactive_served, after.interactive_served),
        batch_served=counts.batch_served + batch,
    )


def _growth(before: float | None, after: float | None) -> float:
    return max((after or 0.0) - (before or 0.0), 0.0)


def _tokens(sample: PodSample) -> float:
    return 0.0 if sample.generation is None else sample.generation.generated_tokens or 0.0
