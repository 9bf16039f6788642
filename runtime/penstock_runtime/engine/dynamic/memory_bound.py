"""`MemoryBounds`: the rows per batch that fit the device, learned from batches that ran out of memory."""

from typing import Final

from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.request import Group

MAX_SHAPES: Final = 1024
"""Maximum number of shapes with a bound of their own; a dropped shape may run out of memory again."""


class MemoryBounds:
    """Owns the common bound, and the lower bounds of shapes that need more memory; a bound only falls."""

    def __init__(self, rows: int, info: ModelInfo) -> None:
        """`rows` is the bound of warm-up and program, at least 1."""
        self.rows = rows
        self.of_shape: dict[Group, int] = {}
        """Bounds by shape, for a model with free dimensions: a large shape does not predict a small one."""
        self._by_shape = info.has_free_dimensions

    def learn(self, result: BatchResult) -> None:
        """Lower the bound if a batch, whose requests have one shape, ran out of memory."""
        if not self._by_shape:
            self.rows = result.bound(self.rows)
            return
        shape = result.batch.requests[0].group
        known = self.of_shape.get(shape, self.rows)
        bound = result.bound(known)
        if bound < known:
            self._remember(shape, bound)

    def _remember(self, shape: Group, bound: int) -> None:
        if shape not in self.of_shape and len(self.of_shape) >= MAX_SHAPES:
            del self.of_shape[next(iter(self.of_shape))]
        self.of_shape[shape] = bound
