"""Log-probabilities of prompt tokens, as arrays.

A tuple for each of a million alternatives takes half a second to decode, to collect and to free; arrays cross
between processes without being decoded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

_OBJECTS_PER_CHUNK = 64
"""Positions whose Python objects exist at the same time during an iteration."""


class PromptLogprob(Struct, frozen=True):
    """The model's log-probability of one prompt token."""

    chosen: float
    rank: int
    """1: no token was more likely."""
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class PromptScores:
    """The log-probabilities of consecutive prompt tokens; iterating yields one `PromptLogprob` per token."""

    chosen: NDArray[Any]
    ranks: NDArray[np.int64]
    ids: NDArray[np.int64]
    """[tokens, alternatives], best first."""
    values: NDArray[Any]
    """The alternatives' log-probabilities."""

    @classmethod
    def joined(cls, parts: "Sequence[PromptScores]") -> Self:
        """Return the concatenation of `parts`."""
        return cls(
            np.concatenate([part.chosen for part in parts]),
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    def between(self, start: int, stop: int | None = None) -> "PromptScores":
        """Return the scores from `start` up to `stop`."""
        at = slice(start, stop)
        return PromptScores(self.chosen[at], self.ranks[at], self.ids[at], self.values[at])

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[PromptLogprob]:
        for start in range(0, len(self), _OBJECTS_PER_CHUNK):
            yield from self.between(start, start + _OBJECTS_PER_CHUNK)._objects()

    def _objects(self) -> Iterator[PromptLogprob]:
        columns = (self.chosen, self.ranks, self.ids, self.values)
        for chosen, rank, *top in zip(*(column.tolist() for column in columns), strict=True):
            yield PromptLogprob(chosen, rank, tuple(zip(*top, strict=True)))


@dataclass(slots=True, eq=False)
class PromptScoring:
    """Collects the scores of one prompt from the steps that compute it."""

    total: int
    """Prompt tokens to score: all but the first."""
    known: int = 0
    parts: list[PromptScores] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Return how many tokens still lack a score."""
        return self.total - self.known

    def within(self, start: int, count: int) -> int:
        """Return how many of `count` positions from `start` on precede a token to score; 0 when none is missing."""
        return max(0, min(count, self.total - start)) if self.missing else 0

    def add(self, start: int, scores: PromptScores) -> bool:
        """Add the scores of positions from `start` on, those known already dropped; return whether none is missing."""
        new = scores.between(self.known - start)
        self.parts.append(new)
        self.known += len(new)
        return not self.missing
