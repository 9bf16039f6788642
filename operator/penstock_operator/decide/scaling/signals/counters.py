"""Points of a window: the raw counters of a sample, and their growth between two samples. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from operator import lt
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.observed import (
    GenerationSample,
    PodSample,
    UtilizationSource,
    is_measured,
    measured,
)


class CurveSumsTuple(NamedTuple):
    """`CurveSums` as a tuple, which is cheaper: every tick of a pool handles dozens of them."""

    epoch: int = 0
    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0
    by_size: tuple[float, ...] = ()


SUMS = CurveSumsTuple._fields[1:-1]
"""The sums over all batches."""


def sums_of(
    values: Iterable[float], by_size: tuple[float, ...] = (), epoch: int = 0
) -> CurveSumsTuple:
    """Return the sums whose `SUMS` are `values`."""
    batches, rows, squares, seconds, joint, time_squares = values
    return CurveSumsTuple(epoch, batches, rows, squares, seconds, joint, time_squares, by_size)


class LatencyCounts(NamedTuple):
    """Cumulative counts by upper bound in seconds: totals or growth."""

    bounds: tuple[float, ...] = ()
    counts: tuple[float, ...] = ()

    def within(self, bounds: Iterable[float]) -> "LatencyCounts":
        """Return the part under those bounds."""
        by_bound = dict(zip(*self, strict=True))
        shared = tuple(bound for bound in bounds if bound in by_bound)
        return LatencyCounts(shared, tuple(by_bound[bound] for bound in shared))


class Growth(NamedTuple):
    """Growth of counters, by name, and of batches, by duration."""

    counters: Mapping[str, float] = MappingProxyType({})
    batches: LatencyCounts = LatencyCounts()


NO_GROWTH = Growth()


class Point(NamedTuple):
    """One sample in a window; NaN, negative and infinite values are absent, as missing ones."""

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
    """Sums of generation, unchanged."""
    by_size: tuple[float, ...] = ()
    """`CurveSums.by_size`; empty if a sum is absent."""


def point(sample: PodSample) -> Point:
    """Return the sample as a point of a window."""
    values: dict[str, float | None] = {
        "requests_received": sample.requests_received,
        "rows_received": sample.rows_received,
        "out_of_memory_splits": sample.out_of_memory_splits,
    }
    if sample.generation is not None:
        values["generated_tokens"] = sample.generation.generated_tokens
        values["completed"] = _completed(sample)
    if sample.curve is not None:
        values.update((name, getattr(sample.curve, name)) for name in SUMS)
    return Point(
        time=sample.time,
        waiting=measured(sample.waiting),
        gpu_utilization=measured(sample.gpu_utilization),
        duty_source=sample.duty_source,
        epoch=None if sample.curve is None else sample.curve.epoch,
        counters={
            key: value for key, value in values.items() if value is not None and is_measured(value)
        },
        batches=_histogram(sample.batch_duration_buckets),
        running=measured(sample.running),
        generation=sample.generation,
        by_size=_by_size(sample),
    )


def _by_size(sample: PodSample) -> tuple[float, ...]:
    by_size = () if sample.curve is None else sample.curve.by_size
    return by_size if all(map(is_measured, by_size)) else ()


def _completed(sample: PodSample) -> float | None:
    """Return the requests that the pod completed; None if it publishes no latency histogram."""
    return sample.request_duration_buckets[-1][1] if sample.request_duration_buckets else None


def _histogram(pairs: Iterable[tuple[float, float]]) -> LatencyCounts:
    sound = [pair for pair in pairs if is_measured(pair[1])]
    return LatencyCounts(*zip(*sound, strict=True)) if sound else LatencyCounts()


def born(first: Point, created: float) -> Point:
    """Return the point of zeros at a pod's creation."""
    zeros = dict.fromkeys(first.counters, 0.0)
    bounds = first.batches.bounds
    return Point(
        created, None, None, None, first.epoch, zeros, LatencyCounts(bounds, (0.0,) * len(bounds))
    )


def restarted(before: Point, after: Point) -> bool:
    """Return whether a counter fell or the sums are of a new epoch, so that no counter can be differenced."""
    if None not in {before.epoch, after.epoch} and before.epoch != after.epoch:
        return True
    new = after.counters
    if any(new.get(key, old) < old for key, old in before.counters.items()):
        return True
    old_batches, other = _alike(before.batches, after.batches)
    return any(map(lt, other.counts, old_batches.counts))


def _alike(first: LatencyCounts, other: LatencyCounts) -> tuple[LatencyCounts, LatencyCounts]:
    """Return both histograms at their common bounds."""
    if first.bounds == other.bounds:
        return first, other
    shared = other.within(first.bounds)
    return first.within(shared.bounds), shared


def growth(window: Sequence[Point]) -> Growth:
    """Return the growth of each counter over the window; a counter absent at either end is absent."""
    if len(window) < 2:
        return NO_GROWTH
    first, last = window[0].counters, window[-1].counters
    counters = {
        key: grown if (grown := last[key] - before) > 0 else 0.0
        for key, before in first.items()
        if key in last
    }
    begun, ended = _alike(window[0].batches, window[-1].batches)
    counts = [
        more if (more := after - before) > 0 else 0.0
        for before, after in zip(begun.counts, ended.counts, strict=True)
    ]
    return Growth(counters, LatencyCounts(begun.bounds, tuple(counts)))


def per_second(window: Sequence[Point], key: str) -> float | None:
    """Return the rate of one counter over the window; None if it is unknown."""
    if len(window) < 2 or window[-1].time <= window[0].time:
        return None
    first, last = window[0].counters.get(key), window[-1].counters.get(key)
    if first is None or last is None:
        return None
    return measured((last - first) / (window[-1].time - window[0].time))


def mean(window: Sequence[Point], gauge: str) -> float | None:
    """Return the mean of a gauge over the window; points where it is absent do not count."""
    said = [value for point in window if (value := getattr(point, gauge)) is not None]
    return sum(said) / len(said) if said else None


def total(growths: Iterable[Growth]) -> Growth:
    """Return the growths of several pods, added key by key."""
    known = list(growths)
    if len(known) == 1:
        return known[0]
    added: dict[str, float] = {}
    for part in known:
        for key, value in part.counters.items():
            added[key] = added.get(key, 0.0) + value
    return Growth(added, _added([part.batches for part in known]))


def _added(histograms: Sequence[LatencyCounts]) -> LatencyCounts:
    """Return the counts added bound by bound: pods of several versions may have several sets of bounds."""
    bounds = {histogram.bounds for histogram in histograms}
    if len(bounds) == 1:
        counts = zip(*(histogram.counts for histogram in histograms), strict=True)
        return LatencyCounts(bounds.pop(), tuple(map(sum, counts)))
    added: dict[float, float] = {}
    for histogram in histograms:
        for bound, count in zip(*histogram, strict=True):
            added[bound] = added.get(bound, 0.0) + count
    return LatencyCounts(
        tuple(sorted(added)), tuple(added[histogram] for histogram in sorted(added))
    )


def curve_sums(grown: Growth) -> CurveSumsTuple | None:
    """Return the service-curve sums of a growth; None where one is absent or there was no batch."""
    counters = grown.counters
    if counters.get("batches", 0.0) <= 0 or not all(name in counters for name in SUMS):
        return None
    return sums_of(counters[name] for name in SUMS)


def buckets(grown: Growth) -> tuple[tuple[float, float], ...]:
    """Return the (upper bound, cumulative count) of a growth, ascending."""
    return tuple(sorted(zip(*grown.batches, strict=True)))
