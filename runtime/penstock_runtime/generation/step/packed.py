"""A plan as arrays: rows end to end without padding, block tables side by side, in buffers that persist."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from penstock_runtime.generation.plan import Row, StepPlan

Ints = NDArray[np.int64]
Table = NDArray[np.int32]


@dataclass(slots=True)
class Packed:
    """One step's inputs. T positions are fed, in R rows, and S rows sample."""

    ids: torch.Tensor
    """[T] int64."""
    positions: Ints
    """[T]: the position in its sequence of each fed token."""
    starts: Ints
    """[R + 1]: where each row begins in T."""
    contexts: Ints
    """[R]: positions that each row's last token attends to, its own included."""
    tables: Table
    """[R, widest]: block tables; entries past a row's context are stale."""
    last: Ints
    """[S]: indexes in T of the tokens whose logits are wanted: first of those that rows sample after, one a row
    that samples; then of those that foretell the prompt, by row."""
    slots: Ints
    """[T]: block * block_tokens + offset, where each token's key and value go."""
    owners: Ints
    """[T]: the row of each token."""

    @property
    def rows(self) -> int:
        """Return R."""
        return len(self.contexts)

    @property
    def tokens(self) -> int:
        """Return T."""
        return len(self.positions)


def positions_of(
    ids: torch.Tensor, tables: Table, first: Ints, starts: Ints, block_tokens: int
) -> Packed:
    """Return the step that feeds `ids`, row r from position `first[r]` on; every row samples."""
    counts = np.diff(starts)
    owners = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(starts[-1]) - starts[owners] + first[owners]
    blocks = tables[owners, positions // block_tokens].astype(np.int64)
    return Packed(
        ids=ids,
        positions=positions,
        starts=starts,
        contexts=first + counts,
        tables=tables,
        last=starts[1:] - 1,
        slots=blocks * block_tokens + positions % block_tokens,
        owners=owners,
    )


class Packer:
    """Turns plans into arrays. A row's table is rewritten only where its sequence's table changed."""

    def __init__(self, block_tokens: int, max_rows: int, max_blocks: int) -> None:
        self._block_tokens = block_tokens
        self._tables = np.zeros((max(1, max_rows), max(1, max_blocks)), np.int32)
        self._place: dict[int, tuple[int, list[int], int]] = {}
        self._free = list(range(max(1, max_rows)))[::-1]

    def pack(self, plan: StepPlan, unknown_ids: dict[int, int]) -> Packed:
        """Return the arrays of `plan`; `unknown_ids` maps a row's index to the id it was waiting for."""
        rows = plan.rows
        counts = np.fromiter((row.count for row in rows), np.int64, len(rows))
        first = np.fromiter((row.start for row in rows), np.int64, len(rows))
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        widest = int(-(-(first + counts).max() // self._block_tokens))
        tables = self._tables[self._places(rows), :widest]
        ids = torch.from_numpy(_ids(rows, unknown_ids, int(starts[-1])))
        packed = positions_of(ids, tables, first, starts, self._block_tokens)
        samples = np.fromiter((row.samples for row in rows), np.bool_, len(rows))
        packed.last = np.concatenate([packed.last[samples], *_scored(rows, starts)])
        return packed

    def _places(self, rows: list[Row]) -> Ints:
        if len(rows) > len(self._free) + len(self._place):
            self._grow(len(rows))
        places = np.empty(len(rows), np.int64)
        for index, row in enumerate(rows):
            places[index] = self._placed(row, rows)
        return places

    def _placed(self, row: Row, rows: list[Row]) -> int:
        uid, blocks = row.sequence.uid, row.blocks
        held = self._place.get(uid)
        if held is None:
            if not self._free:
                self._forget_all_but({other.sequence.uid for other in rows})
            place, written = self._free.pop(), 0
        else:
            place, known, written = held
            if known is not blocks:
                written = 0
        needed = -(-(row.start + row.count) // self._block_tokens)
        if written < needed:
            self._tables[place, written:needed] = blocks[written:needed]
            self._place[uid] = (place, blocks, needed)
        return place

    def _forget_all_but(self, uids: set[int]) -> None:
        for uid in [uid for uid in self._place if uid not in uids]:
            self._free.append(self._place.pop(uid)[0])

    def _grow(self, rows: int) -> None:
        more = rows - len(self._tables)
        self._free.extend(range(len(self._tables), len(self._tables) + more))
        self._tables = np.pad(self._tables, ((0, more), (0, 0)))


def _scored(rows: list[Row], starts: Ints) -> list[Ints]:
    return [
        np.arange(start, start + row.scores)
        for row, start in zip(rows, starts[:-1].tolist(), strict=True)
        if row.scores
    ]


def _ids(rows: list[Row], unknown_ids: dict[int, int], tokens: int) -> Ints:
    ids = np.empty(tokens, np.int64)
    at = 0
    for index, row in enumerate(rows):
        if row.unknown is not None:
            ids[at] = unknown_ids[index]
        elif row.count == 1:
            ids[at] = row.sequence.ids[row.start]
        else:
            ids[at : at + row.count] = row.sequence.ids[row.start : row.start + row.count]
        at += row.count
    return ids
