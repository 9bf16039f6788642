"""`PackedBatch` and `Packer`: a step plan as arrays, with rows concatenated without padding, in persistent buffers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.steps.step_plan import Row, StepPlan

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


@dataclass
class PackedBatch:
    """Inputs of one step: T tokens in R rows, S of which sample."""

    ids: Ints
    """[T]: token ids."""
    positions: Ints
    """[T]: position of each token in its sequence."""
    starts: Ints
    """[R + 1]: offset of each row in T."""
    first: Ints
    """[R]: position of each row's first token, which is the number of its cached positions."""
    contexts: Ints
    """[R]: number of positions that each row's last token attends to, including its own."""
    tables: Table
    """[R, widest]: block tables; entries past a row's context are stale."""
    last: Ints
    """[S]: indices in T of the tokens whose logits are computed: first one per sampling row; then those that score the
    prompt, by row."""
    block_tokens: int

    @property
    def rows(self) -> int:
        """Return R."""
        return len(self.contexts)

    @property
    def tokens(self) -> int:
        """Return T."""
        return len(self.positions)

    @cached_property
    def owners(self) -> Ints:
        """[T]: row of each token."""
        return np.repeat(np.arange(self.rows), np.diff(self.starts))

    @cached_property
    def slots(self) -> Ints:
        """[T]: slot of each token's key and value, block * block_tokens + offset."""
        blocks = self.tables[self.owners, self.positions // self.block_tokens].astype(np.int64)
        return blocks * self.block_tokens + self.positions % self.block_tokens


def positions_of(
    ids: Ints, tables: Table, first: Ints, starts: Ints, block_tokens: int
) -> PackedBatch:
    """Return a step over `ids` in which row r starts at position `first[r]` and every row samples."""
    counts = np.diff(starts)
    return PackedBatch(
        ids=ids,
        positions=np.arange(starts[-1]) + np.repeat(first - starts[:-1], counts),
        starts=starts,
        first=first,
        contexts=first + counts,
        tables=tables,
        last=starts[1:] - 1,
        block_tokens=block_tokens,
    )


class Packer:
    """Converts plans to arrays; rewrites only changed parts of block tables."""

    def __init__(self, block_tokens: int, max_rows: int, max_blocks: int) -> None:
        self._block_tokens = block_tokens
        self._tables = np.zeros((max(1, max_rows), max(1, max_blocks)), np.int32)
        self._cached: dict[int, tuple[int, list[int], int]] = {}
        self._free = list(range(max(1, max_rows)))[::-1]

    def pack(self, plan: StepPlan, unknown_ids: dict[int, int]) -> PackedBatch:
        """Return the arrays of `plan`; `unknown_ids` maps a row's index to the sampled id it depends on.

        Lists are converted to arrays once: dozens of numpy calls are slow compared with a small model's forward pass.
        """
        rows, ids, positions = plan.rows, list[int](), list[int]()
        starts, first, contexts, last, scored = (
            [0],
            list[int](),
            list[int](),
            list[int](),
            list[int](),
        )
        for index, row in enumerate(rows):
            start, end = row.start, row.start + row.count
            positions += range(start, end)
            ids += (
                [unknown_ids[index]] if row.placeholder is not None else row.sequence.ids[start:end]
            )
            scored += range(starts[-1], starts[-1] + row.scores)
            first.append(start)
            contexts.append(end)
            starts.append(len(ids))
            if row.samples:
                last.append(len(ids) - 1)
        widest = -(-max(contexts) // self._block_tokens)
        return PackedBatch(
            ids=np.array(ids, np.int64),
            positions=np.array(positions, np.int64),
            starts=np.array(starts, np.int64),
            first=np.array(first, np.int64),
            contexts=np.array(contexts, np.int64),
            tables=self._tables[self._table_rows(rows), :widest],
            last=np.array(last + scored, np.int64),
            block_tokens=self._block_tokens,
        )

    def _table_rows(self, rows: list[Row]) -> list[int]:
        if len(rows) > len(self._free) + len(self._cached):
            self._grow(len(rows))
        return [self._table_row(row, rows) for row in rows]

    def _table_row(self, row: Row, rows: list[Row]) -> int:
        uid, blocks = row.sequence.uid, row.blocks
        cached = self._cached.get(uid)
        if cached is None:
            if not self._free:
                self._evict_all_but({other.sequence.uid for other in rows})
            place, written = self._free.pop(), 0
        else:
            place, known, written = cached
            if known is not blocks:
                written = 0
        needed = -(-(row.start + row.count) // self._block_tokens)
        if written < needed:
            self._tables[place, written:needed] = blocks[written:needed]
            self._cached[uid] = (place, blocks, needed)
        return place

    def _evict_all_but(self, uids: set[int]) -> None:
        for uid in [uid for uid in self._cached if uid not in uids]:
            self._free.append(self._cached.pop(uid)[0])

    def _grow(self, rows: int) -> None:
        more = rows - len(self._tables)
        self._free.extend(range(len(self._tables), len(self._tables) + more))
        self._tables = np.pad(self._tables, ((0, more), (0, 0)))
