"""Points of a window: the raw counters of a sample, and their growth between two samples. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock_operator.measured import is_measured, measured
from penstock_operator.observed import GenerationSample, PodSample, UtilizationSource


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


Counters = Mapping[str | float, float]
"""Counters, or their growth: by name, and numbers of batches of at most a duration by that bound, in seconds."""


class Point(NamedTuple):
    """One sample in a window; NaN, negative and infinite values are absent, as missing ones."""

    time: float
    waiting: float | None
    gpu_utilization: float | None
    duty_source: UtilizationSource | None
    epoch: int | None
    """Of the service-curve sums."""
    counters: Counters
    running: float | None = None
    generation: GenerationSample | None = None
    """Sums of generation, unchanged."""
    by_size: tuple[float, ...] = ()
    """`CurveSums.by_size`; empty if a sum is absent."""


def point(sample: PodSample) -> Point:
    """Return the sample as a point of a window."""
    values: dict[str | float, float | None] = {
        **dict(sample.batch_duration_buckets),
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


def born(first: Point, created: float) -> Point:
    """Return the point of zeros at a pod's creation."""
    zeros = dict.fromkeys(first.counters, 0.0)
    return Point(created, None, None, None, first.epoch, zeros)


def restarted(before: Point, after: Point) -> bool:
    """Return whether a counter fell or the sums are of a new epoch, so that no counter can be differenced."""
    if None not in {before.epoch, after.epoch} and before.epoch != after.epoch:
        return True
    new = after.counters
    return any(new.get(key, old) < old for key, old in before.counters.items())


def growth(window: Sequence[Point]) -> Counters:
    """Return the growth of each counter over the window; a counter absent at either end is absent."""
    if len(window) < 2:
        return {}
    first, last = window[0].counters, window[-1].counters
    return {
        key: grown if (grown := last[key] - before) > 0 else 0.0
        for key, before in first.items()
        if key in last
    }


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


def total(growths: Iterable[Counters]) -> Counters:
    """Return the growths of several pods, added key by key: pods of several versions may have several sets of bounds."""
    added: dict[str | float, float] = {}
    for part in growths:
        for key, value in part.items():
            added[key] = added.get(key, 0.0) + value
    return added


def curve_sums(grown: Counters) -> CurveSumsTuple | None:
    """Return the service-curve sums of a growth; None where one is absent or there was no batch."""
    if grown.get("batches", 0.0) <= 0 or not all(name in grown for name in SUMS):
        return None
    return sums_of(grown[name] for name in SUMS)


def buckets(grown: Counters) -> tuple[tuple[float, float], ...]:
    """Return the (upper bound, cumulative count) of a growth, ascending."""
    counts = ((key, value) for key, value in grown.items() if not isinstance(key, str))
    return tuple(sorted(counts))
