"""Weighted shares of one amount: max-min fair, floors first, nobody above his demand. Pure.

Water filling (Bertsekas and Gallager, Data Networks, 6.5.2), with weights: share = clamp(level * weight, floor,
demand), at the level at which the shares add up to the amount.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One pool's part in a division, in devices."""

    weight: float
    floor: float
    demand: float


def fair_shares(parts: Sequence[Part], amount: float) -> list[float]:
    """Return each part's share; floors that do not fit are themselves shared by weight."""
    if sum(part.demand for part in parts) <= amount:
        return [part.demand for part in parts]
    if sum(part.floor for part in parts) > amount:
        parts = [Part(part.weight, 0.0, part.floor) for part in parts]
    level = _level(parts, amount)
    return [_at(part, level) for part in parts]


def _at(part: Part, level: float) -> float:
    return min(max(level * part.weight, part.floor), part.demand)


def _level(parts: Sequence[Part], amount: float) -> float:
    """Return the level at which the shares, a piecewise linear sum, add up to `amount`."""
    bends = sorted(
        {part.floor / part.weight for part in parts} | {part.demand / part.weight for part in parts}
    )
    low, high = 0, len(bends) - 1
    while low < high:
        middle = (low + high) // 2
        if sum(_at(part, bends[middle]) for part in parts) < amount:
            low = middle + 1
        else:
            high = middle
    top = bends[low]
    bottom = bends[low - 1] if low else 0.0
    at_top = sum(_at(part, top) for part in parts)
    at_bottom = sum(_at(part, bottom) for part in parts)
    if at_top <= at_bottom:
        return top
    return bottom + (top - bottom) * max(amount - at_bottom, 0.0) / (at_top - at_bottom)
