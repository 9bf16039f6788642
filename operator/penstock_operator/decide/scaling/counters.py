"""Samples made ready for differencing: raw counters, flat, and what they grew by. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock_api.limits import CurveSums
from penstock_operator.observed import DutySource, PodSample, measured

Key = str | tuple[str, float]
"""A counter's name, or ("bucket", upper bound in seconds)."""

PLAIN = ("requests_received", "rows_received", "out_of_memory_splits")
SUMS = (
    "batches",
    "cost_units",
    "cost_units_squared",
    "seconds",
    "cost_unit_seconds",
    "seconds_squared",
)


@dataclass(frozen=True, slots=True)
class Point:
    """One sample in a window; what was NaN, negative or infinite is absent, as what was missing."""

    time: float
    waiting: float | None
    gpu_utilization: float | None
    duty_source: DutySource | None
    epoch: int | None
    """Of the service-curve sums."""
    counters: Mapping[Key, float]
    running: float | None = None


def point(sample: PodSample) -> Point:
    """Return the sample as a point of a window."""
    found: dict[Key, float | None] = {name: getattr(sample, name) for name in PLAIN}
    if sample.curve is not None:
        found |= {name: getattr(sample.curve, name) for name in SUMS}
    found |= {("bucket", bound): count for bound, count in sample.batch_duration_buckets}
    return Point(
        time=sample.time,
        waiting=measured(sample.waiting),
        gpu_utilization=measured(sample.gpu_utilization),
        duty_source=sample.duty_source,
        epoch=None if sample.curve is None else sample.curve.epoch,
        counters={
            key: value for key, held in found.items() if (value := measured(held)) is not None
        },
        running=measured(sample.running),
    )


def born(first: Point, created: float) -> Point:
    """Return the point of zeros that a pod began with when it was created."""
    zeros = dict.fromkeys(first.counters, 0.0)
    return Point(created, None, None, None, first.epoch, zeros)


def restarted(before: Point, after: Point) -> bool:
    """Return whether any counter fell, or the sums began a new epoch: then none can be differenced."""
    if None not in {before.epoch, after.epoch} and before.epoch != after.epoch:
        return True
    old, new = before.counters, after.counters
    return any(new[key] < old[key] for key in old.keys() & new.keys())


def growth(window: Sequence[Point]) -> dict[Key, float]:
    """Return by how much each counter grew over the window; one absent at either end is absent."""
    if len(window) < 2:
        return {}
    first, last = window[0].counters, window[-1].counters
    return {key: max(last[key] - first[key], 0.0) for key in first.keys() & last.keys()}


def per_second(window: Sequence[Point], key: Key) -> float | None:
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


def total(growths: Iterable[Mapping[Key, float]]) -> dict[Key, float]:
    """Return the growths of several pods, added key by key."""
    added: dict[Key, float] = {}
    for one in growths:
        for key, value in one.items():
            added[key] = added.get(key, 0.0) + value
    return added


def curve_sums(grown: Mapping[Key, float]) -> CurveSums | None:
    """Return the service-curve sums of a growth; None where one is absent or there was no batch."""
    if not all(name in grown for name in SUMS) or grown["batches"] <= 0:
        return None
    return CurveSums(**{name: grown[name] for name in SUMS})


def buckets(grown: Mapping[Key, float]) -> tuple[tuple[float, float], ...]:
    """Return the (upper bound, cumulative count) of a growth, ascending."""
    return tuple(sorted((key[1], count) for key, count in grown.items() if isinstance(key, tuple)))
