"""How many rows of a batch fit the device: learnt from batches that ran out of memory, per shape where shapes differ."""

from typing import Final

from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.request import Group

MAX_SHAPES: Final = 1024
"""Shapes that are remembered; one that is forgotten runs out of memory once more."""


class MemoryBounds:
    """Owns the bound of every shape, and those of shapes that proved to take more memory; a bound only falls."""

    def __init__(self, rows: int, info: ModelInfo) -> None:
        """`rows`: what warm-up and program allow, at least 1."""
        self.rows = rows
        self.of_shape: dict[Group, int] = {}
        """Of a model with free dimensions: what a large shape takes says nothing of a small one."""
        self._by_shape = info.has_free_dimensions

    def learn(self, ran: BatchResult) -> None:
        """Take in what one batch, all of one shape, showed."""
        if not self._by_shape:
            self.rows = ran.bound(self.rows)
            return
        shape = ran.batch.requests[0].group
        known = self.of_shape.get(shape, self.rows)
        bound = ran.bound(known)
        if bound < known:
            self._remember(shape, bound)

    def _remember(self, shape: Group, bound: int) -> None:
        if shape not in self.of_shape and len(self.of_shape) >= MAX_SHAPES:
            del self.of_shape[next(iter(self.of_shape))]
        self.of_shape[shape] = bound
