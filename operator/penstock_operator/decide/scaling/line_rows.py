"""Rows of a line of batch work in pools of one-shot models, whose lines may have arrays of inputs. Pure."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock_operator.observed import BatchLoad, PodSample

MIN_LINES: Final = 10.0
"""Answered lines from which on their mean is used."""
MEMORY_LINES: Final = 1000.0
"""Lines that the mean is of: later ones replace earlier ones."""


class LineRows(NamedTuple):
    """Rows that pods served for answered lines, and the counts from which the next lines are measured."""

    rows: float = 0.0
    lines: float = 0.0
    served: Mapping[str, float] = MappingProxyType({})
    """Rows of batch work that each pod had served at its last sample, by UID; a batch that begins or ends drops those of pods without one."""
    left: Mapping[tuple[float, float], int] = MappingProxyType({})
    """Lines left of the batches, by their (created, expires)."""

    @property
    def per_line(self) -> float:
        """Return the mean rows of a line, at least 1; 1 until `MIN_LINES` have been answered."""
        return max(self.rows / self.lines, 1.0) if self.lines >= MIN_LINES else 1.0

    def measured(self, batches: tuple[BatchLoad, ...] | None) -> tuple[BatchLoad, ...] | None:
        """Return the batches with the rows of their lines."""
        rows = self.per_line
        return batches and tuple(each._replace(rows_per_line=rows) for each in batches)

    def after(
        self, newest: Mapping[str, PodSample], batches: tuple[BatchLoad, ...] | None
    ) -> "LineRows":
        """Return the rows with the lines answered since the last count; of a round in which a batch begins or ends, none count."""
        served = {uid: n for uid, each in newest.items() if (n := each.batch_served) is not None}
        if not served or batches is None:
            return self
        left = Counter[tuple[float, float]]()
        for batch in batches:
            left[batch.created, batch.expires] += batch.lines_left
        if self.left == left:
            return self
        answered = sum(self.left.values()) - left.total()
        if self.left.keys() != left.keys() or answered <= 0:
            return self._replace(served=served, left=left)
        fresh = (max(n - self.served[uid], 0.0) for uid, n in served.items() if uid in self.served)
        rows, lines = self.rows + sum(fresh), self.lines + answered
        kept = min(MEMORY_LINES / lines, 1.0)
        return LineRows(kept * rows, kept * lines, {**self.served, **served}, left)
