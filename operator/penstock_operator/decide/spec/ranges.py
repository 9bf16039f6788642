"""Reconciliation of lower and upper limits that come from different sources and contradict each other.

The schema rejects a contradiction within one object, but a policy's default or a built-in value can still contradict
the spec. The limit of the weaker source changes; between equal sources the lower limit does, which costs less.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock_operator.decide.spec import live_fields
from penstock_operator.decide.spec.live_fields import Fields, Value


@dataclass(frozen=True, slots=True)
class Layers:
    """Policy defaults and spec as layers over the built-in values."""

    defaults: Fields
    spec: Fields

    def values(self) -> dict[str, Value]:
        """Return the value of every field after precedence."""
        return {**live_fields.BUILT_IN, **self.defaults, **self.spec}

    def rank(self, path: str) -> int:
        """Return 2 for a field of the spec, 1 for a policy's default, 0 for a built-in value."""
        return 2 if path in self.spec else int(path in self.defaults)


_RANGES = (
    (live_fields.MIN_REPLICAS, live_fields.MAX_REPLICAS, 0),
    (live_fields.SIZE_MIN, live_fields.SIZE_MAX, 0),
    (live_fields.LOW_PERCENT, live_fields.HIGH_PERCENT, 1),
)
"""(lower, upper, minimum distance)"""

_NAMES = ("built-in", "policy default", "spec")


def reconcile(layers: Layers) -> tuple[Mapping[str, Value], tuple[str, ...]]:
    """Return all values without contradictions, and a sentence for each that changed.

    A built-in value changes without a sentence, since no user set it.
    """
    values, notes = layers.values(), []
    for lower, upper, distance in _RANGES:
        low, high = int(values[lower]), int(values[upper])
        if low + distance <= high:
            continue
        changes, stays = (
            (upper, lower) if layers.rank(upper) < layers.rank(lower) else (lower, upper)
        )
        values[lower], values[upper] = _settled(low, high, distance, raise_upper=changes == upper)
        if layers.rank(changes):
            notes.append(_note(layers, changes, stays, values))
    return values, tuple(notes)


def _settled(low: int, high: int, distance: int, *, raise_upper: bool) -> tuple[int, int]:
    if not raise_upper:
        return high - distance, high
    if distance and low + distance > 100:  # a band in percent ends at 100
        return 100 - distance, 100
    return low, low + distance


def _note(layers: Layers, changes: str, stays: str, values: Fields) -> str:
    return (
        f"{changes} of the {_NAMES[layers.rank(changes)]} contradicts {stays} {values[stays]}"
        f" of the {_NAMES[layers.rank(stays)]}: {values[changes]} applies"
    )
