"""Raw counters of a pod, flat, and what they grew by between samples. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from penstock_api.limits import CurveSums
from penstock_operator.observed import PodSample, measured

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


def counters(sample: PodSample) -> dict[Key, float]:
    """Return the counters that the sample holds; what is absent is not in it."""
    found: dict[Key, float | None] = {name: getattr(sample, name) for name in PLAIN}
    if sample.curve is not None:
        found |= {name: getattr(sample.curve, name) for name in SUMS}
    found |= {("bucket", bound): count for bound, count in sample.batch_duration_buckets}
    return {key: value for key, held in found.items() if (value := measured(held)) is not None}


def restarted(before: PodSample, after: PodSample) -> bool:
    """Return whether any counter fell, or the sums began a new epoch: then none can be differenced."""
    if before.curve and after.curve and before.curve.epoch != after.curve.epoch:
        return True
    old, new = counters(before), counters(after)
    return any(new[key] < old[key] for key in old.keys() & new.keys())


def born(first: PodSample, created: float) -> PodSample:
    """Return the sample of zeros that a pod began with when it was created."""
    return PodSample(
        uid=first.uid,
        time=created,
        requests_received=0.0,
        rows_received=0.0,
        out_of_memory_splits=0.0,
        curve=None if first.curve is None else CurveSums(epoch=first.curve.epoch),
        batch_duration_buckets=tuple((bound, 0.0) for bound, _ in first.batch_duration_buckets),
    )


def growth(window: Sequence[PodSample]) -> dict[Key, float]:
    """Return by how much each counter grew from its first to its last value in the window."""
    first: dict[Key, float] = {}
    last: dict[Key, float] = {}
    known: dict[Key, int] = {}
    for sample in window:
        held = counters(sample)
        first = held | first
        last |= held
        for key in held:
            known[key] = known.get(key, 0) + 1
    return {key: max(last[key] - first[key], 0.0) for key, times in known.items() if times > 1}


def per_second(window: Sequence[PodSample], key: Key) -> float | None:
    """Return the rate of one counter over the window, or None where it cannot be said."""
    known = [(sample.time, held[key]) for sample in window if key in (held := counters(sample))]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    return measured((known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0]))


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
