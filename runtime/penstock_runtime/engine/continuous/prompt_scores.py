"""What the model thought of a prompt's tokens, in arrays.

A tuple for each of a million alternatives takes half a second to decode, to collect and to free; arrays cross between
processes without being decoded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

_AT_ONCE = 64
"""Positions whose objects live at the same time while all are read."""


class PromptLogprob(Struct, frozen=True):
    """What the model thought of one token of the prompt."""

    chosen: float
    rank: int
    """1: no token was likelier."""
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class PromptScores:
    """Of tokens in a row; iterated, it yields one `PromptLogprob` each."""

    chosen: NDArray[Any]
    ranks: NDArray[np.int64]
    ids: NDArray[np.int64]
    """[tokens, alternatives], best first."""
    values: NDArray[Any]
    """The alternatives' log-probabilities."""

    @classmethod
    def joined(cls, parts: "Sequence[PromptScores]") -> Self:
        """Return those of all parts in their order."""
        return cls(
            np.concatenate([part.chosen for part in parts]),
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    def between(self, start: int, stop: int | None = None) -> "PromptScores":
        """Return those from `start` to `stop`."""
        at = slice(start, stop)
        return PromptScores(self.chosen[at], self.ranks[at], self.ids[at], self.values[at])

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[PromptLogprob]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self.between(start, start + _AT_ONCE)._objects()

    def _objects(self) -> Iterator[PromptLogprob]:
        columns = (self.chosen, self.ranks, self.ids, self.values)
        for chosen, rank, *top in zip(*(column.tolist() for column in columns), strict=True):
            yield PromptLogprob(chosen, rank, tuple(zip(*top, strict=True)))
