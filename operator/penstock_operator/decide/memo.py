"""What need not be worked out again: a value beside everything that it followed from. Pure.

Five thousand pools are decided on every few seconds, and hardly any of them was edited since: their manifests and
effective specs are those of the pass before. Keys are compared by identity first, so that a store's unchanged record costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Memo(Generic[Value]):
    """A value, and what it followed from."""

    key: tuple[object, ...]
    value: Value


def recalled(
    held: Memo[Value] | None, key: tuple[object, ...], make: Callable[[], Value]
) -> Memo[Value]:
    """Return `held` if it followed from the very same, else what `make` makes of it."""
    if held is not None and same(held.key, key):
        return held
    return Memo(key, make())


def same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Tell whether two keys are equal, part by part; parts may be tuples of parts."""
    return len(before) == len(after) and all(map(_equal, before, after))


def _equal(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return same(one, other)
    return one == other
