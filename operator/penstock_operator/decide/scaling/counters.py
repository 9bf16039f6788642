"""Samples made ready for differencing: raw counters, flat, and what they grew by. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock_api.limits import CurveSums
from penstock_operator.observed import MEASURED_MAX, DutySource, PodSample, measured

Key = str | tuple[str, float]
"""A counter's name, or ("bucket", upper bound in seconds)."""


class Sums(NamedTuple):
    """`CurveSums`, as reckoned with: a tuple, for there are dozens of them in every pool's every tick."""

    epoch: int = 0
    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0


SUMS = Sums._fields[1:]


def sums_of(told: "CurveSums | Sums") -> Sums:
    """Return the sums that a pod told, as a tuple."""
    return Sums(
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
    duty_source: DutySource | None
    epoch: int | None
    """Of the service-curve sums."""
    counters: Mapping[Key, float]
    running: float | None = None


def point(sample: PodSample) -> Point:
    """Return the sample as a point of a window."""
    found: dict[Key, float | None] = {
        "requests_received": sample.requests_received,
        "rows_received": sample.rows_received,
        "out_of_memory_splits": sample.out_of_memory_splits,
    }
    if sample.curve is not None:
        found.update(zip(SUMS, sums_of(sample.curve)[1:], strict=True))
    for bound, count in sample.batch_duration_buckets:
        found["bucket", bound] = count
    return Point(
        time=sample.time,
        waiting=measured(sample.waiting),
        gpu_utilization=measured(sample.gpu_utilization),
        duty_source=sample.duty_source,
        epoch=None if sample.curve is None else sample.curve.epoch,
        counters={
            key: value
            for key, value in found.items()
            if value is not None and 0 <= value <= MEASURED_MAX
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
    new = after.counters
    return any(new.get(key, old) < old for key, old in before.counters.items())


def growth(window: Sequence[Point]) -> dict[Key, float]:
    """Return by how much each counter grew over the window; one absent at either end is absent."""
    if len(window) < 2:
        return {}
    first, last = window[0].counters, window[-1].counters
    return {
        key: grown if (grown := last[key] - before) > 0 else 0.0
        for key, before in first.items()
        if key in last
    }


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


def curve_sums(grown: Mapping[Key, float]) -> Sums | None:
    """Return the service-curve sums of a growth; None where one is absent or there was no batch."""
    if grown.get("batches", 0.0) <= 0 or not all(name in grown for name in SUMS):
        return None
    return Sums(0, *(grown[name] for name in SUMS))


def buckets(grown: Mapping[Key, float]) -> tuple[tuple[float, float], ...]:
    """Return the (upper bound, cumulative count) of a growth, ascending."""
    return tuple(sorted((key[1], count) for key, count in grown.items() if isinstance(key, tuple)))
