"""Samples made ready for differencing: raw counters, flat, and what they grew by. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import NamedTuple

from penstock_api.limits import CurveSums
from penstock_operator.observed import (
    GenerationSample,
    PodSample,
    UtilizationSource,
    is_measured,
    measured,
)


class CurveSumsTuple(NamedTuple):
    """`CurveSums`, as reckoned with: a tuple, for there are dozens of them in every pool's every tick."""

    epoch: int = 0
    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0


SUMS = CurveSumsTuple._fields[1:]


class LatencyCounts(NamedTuple):
    """Cumulative counts by upper bound in seconds, as they stand or as they grew."""

    bounds: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()

    def within(self, bounds: Iterable[float]) -> "LatencyCounts":
        """Return the part under those bounds."""
        held = dict(zip(*self, strict=True))
        shared = tuple(one for one in bounds if one in held)
        return LatencyCounts(shared, tuple(held[one] for one in shared))


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much counters grew, by name, and batches of each duration."""

    counters: Mapping[str, float] = field(default_factory=dict)
    batches: LatencyCounts = field(default_factory=LatencyCounts)


NO_GROWTH = Growth()


def sums_of(told: "CurveSums | CurveSumsTuple") -> CurveSumsTuple:
    """Return the sums that a pod told, as a tuple."""
    return CurveSumsTuple(
        told.epoch,
        told.batches,
        told.cost_units,
        told.cost_units_squared,
        told.seconds,
        told.cost_unit_seconds,
        told.seconds_squared,
    )


@dataclass(frozen=True, slots=True)
class Point:
    """One sample in a window; what was NaN, negative or infinite is absent, as what was missing."""

    time: float
    waiting: float | None
    gpu_utilization: float | None
    duty_source: UtilizationSource | None
    epoch: int | None
    """Of the service-curve sums."""
    counters: Mapping[str, float]
    batches: LatencyCounts
    """Batches by their duration."""
    running: float | None = None
    generation: GenerationSample | None = None
    """As it was told."""


def point(sample: PodSample) -> Point:
    """Return the sample as a point of a window."""
    found: dict[str, float | None] = {
        "requests_received": sample.requests_received,
        "rows_received": sample.rows_received,
        "out_of_memory_splits": sample.out_of_memory_splits,
    }
    if sample.generation is not None:
        found["generated_tokens"] = sample.generation.generated_tokens
        found["completed"] = _completed(sample)
    if sample.curve is not None:
        found.update(zip(SUMS, sums_of(sample.curve)[1:], strict=True))
    return Point(
        time=sample.time,
        waiting=measured(sample.waiting),
        gpu_utilization=measured(sample.gpu_utilization),
        duty_source=sample.duty_source,
        epoch=None if sample.curve is None else sample.curve.epoch,
        counters={
            key: value for key, value in found.items() if value is not None and is_measured(value)
        },
        batches=_histogram(sample.batch_duration_buckets),
        running=measured(sample.running),
        generation=sample.generation,
    )


def _completed(sample: PodSample) -> float | None:
    """Return the requests that the pod completed; None where it does not tell how long they took."""
    return sample.request_duration_buckets[-1][1] if sample.request_duration_buckets else None


def _histogram(told: Iterable[tuple[float, float]]) -> LatencyCounts:
    sound = [one for one in told if is_measured(one[1])]
    return LatencyCounts(*zip(*sound, strict=True)) if sound else LatencyCounts()


def born(first: Point, created: float) -> Point:
    """Return the point of zeros that a pod began with when it was created."""
    zeros = dict.fromkeys(first.counters, 0.0)
    bounds = first.batches.bounds
    return Point(
        created, None, None, None, first.epoch, zeros, LatencyCounts(bounds, (0.0,) * len(bounds))
    )


def restarted(before: Point, after: Point) -> bool:
    """Return whether any counter fell, or the sums began a new epoch: then none can be differenced."""
    if None not in {before.epoch, after.epoch} and before.epoch != after.epoch:
        return True
    new = after.counters
    if any(new.get(key, old) < old for key, old in before.counters.items()):
        return True
    one, other = _alike(before.batches, after.batches)
    return any(map(lt, other.counts, one.counts))


def _alike(one: LatencyCounts, other: LatencyCounts) -> tuple[LatencyCounts, LatencyCounts]:
    """Return both under the bounds that both have: mostly all of them."""
    if one.bounds == other.bounds:
        return one, other
    shared = other.within(one.bounds)
    return one.within(shared.bounds), shared


def growth(window: Sequence[Point]) -> Growth:
    """Return by how much each counter grew over the window; one absent at either end is absent."""
    if len(window) < 2:
        return NO_GROWTH
    first, last = window[0].counters, window[-1].counters
    counters = {
        key: grown if (grown := last[key] - before) > 0 else 0.0
        for key, before in first.items()
        if key in last
    }
    begun, ended = _alike(window[0].batches, window[-1].batches)
    counts = (
        more if (more := after - before) > 0 else 0.0
        for before, after in zip(begun.counts, ended.counts, strict=True)
    )
    return Growth(counters, LatencyCounts(begun.bounds, tuple(counts)))


def per_second(window: Sequence[Point], key: str) -> float | None:
    """Return the rate of one counter over the window, or None where it cannot be said."""
    if len(window) < 2 or window[-1].time <= window[0].time:
        return None
    first, last = window[0].counters.get(key), window[-1].counters.get(key)
    if first is None or last is None:
        return None
    return measured((last - first) / (window[-1].time - window[0].time))


def mean(window: Sequence[Point], gauge: str) -> float | None:
    """Return the mean of a gauge over the window; points where it is absent do not count."""
    said = [value for one in window if (value := getattr(one, gauge)) is not None]
    return sum(said) / len(said) if said else None


def total(growths: Iterable[Growth]) -> Growth:
    """Return the growths of several pods, added key by key."""
    known = list(growths)
    if len(known) == 1:
        return known[0]
    added: dict[str, float] = {}
    for one in known:
        for key, value in one.counters.items():
            added[key] = added.get(key, 0.0) + value
    return Growth(added, _added([one.batches for one in known]))


def _added(histograms: Sequence[LatencyCounts]) -> LatencyCounts:
    """Return the counts added bound by bound: pods of several versions may have several sets of bounds."""
    bounds = {one.bounds for one in histograms}
    if len(bounds) == 1:
        counts = zip(*(one.counts for one in histograms), strict=True)
        return LatencyCounts(bounds.pop(), tuple(map(sum, counts)))
    added: dict[float, float] = {}
    for one in histograms:
        for bound, count in zip(*one, strict=True):
            added[bound] = added.get(bound, 0.0) + count
    return LatencyCounts(tuple(sorted(added)), tuple(added[one] for one in sorted(added)))


def curve_sums(grown: Growth) -> CurveSumsTuple | None:
    """Return the service-curve sums of a growth; None where one is absent or there was no batch."""
    found = grown.counters
    if found.get("batches", 0.0) <= 0 or not all(name in found for name in SUMS):
        return None
    return CurveSumsTuple(0, *(found[name] for name in SUMS))


def buckets(grown: Growth) -> tuple[tuple[float, float], ...]:
    """Return the (upper bound, cumulative count) of a growth, ascending."""
    return tuple(sorted(zip(*grown.batches, strict=True)))
