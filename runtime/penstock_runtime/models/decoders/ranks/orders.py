"""`StepOrder`: what a follower needs of a step plan, as one array of 32-bit integers. Pure."""

from dataclasses import dataclass, field

import numpy as np

from penstock_runtime.engine.continuous.steps.step_plan import BlockCopy, StepPlan
from penstock_runtime.models.decoders.packing import PackedBatch, Table

HEADER = 9
"""Words before the content: their total, the lengths of its parts, and the size of a block."""


@dataclass(frozen=True, slots=True)
class StepOrder:
    """The blocks to move, then the packed rows to run; None: the plan only moves blocks."""

    packed: PackedBatch | None
    swap_out: list[BlockCopy] = field(default_factory=list)
    swap_in: list[BlockCopy] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)

    def moves(self) -> StepPlan:
        """Return a plan without rows that moves the blocks."""
        return StepPlan(0, [], self.swap_out, self.swap_in, self.copies)


def encode(order: StepOrder) -> Table:
    """Return the words of `order`; the first is their number."""
    moves = [order.swap_out, order.swap_in, order.copies]
    packed = order.packed
    content = [np.array([(copy.source, copy.target) for copy in part]) for part in moves]
    sizes = [len(part) for part in moves]
    if packed is None:
        sizes += [0] * 5
    else:
        widest = packed.tables.shape[1]
        sizes += [packed.tokens, packed.rows, widest, len(packed.last), packed.block_tokens]
        content += [packed.ids, packed.positions, packed.starts, packed.first, packed.contexts]
        content += [packed.tables, packed.last]
    parts = [array.reshape(-1).astype(np.int32) for array in content]
    total = HEADER + sum(len(part) for part in parts)
    return np.concatenate([np.array([total, *sizes], np.int32), *parts])


def decode(words: Table) -> StepOrder:
    """Return the order that was encoded as `words`, which may be followed by others."""
    outs, ins, copied, tokens, rows, widest, last, block_tokens = words[1:HEADER].tolist()
    lengths = [2 * outs, 2 * ins, 2 * copied]
    if rows:
        lengths += [tokens, tokens, rows + 1, rows, rows, rows * widest, last]
    ends = HEADER + np.cumsum(lengths)
    content = np.split(words, [HEADER, *ends])[1:-1]
    moves = [
        [BlockCopy(source, target) for source, target in part.reshape(-1, 2).tolist()]
        for part in content[:3]
    ]
    if not rows:
        return StepOrder(None, *moves)
    ids, positions, starts, first, contexts, tables, sampled = content[3:]
    packed = PackedBatch(
        ids=ids.astype(np.int64),
        positions=positions.astype(np.int64),
        starts=starts.astype(np.int64),
        first=first.astype(np.int64),
        contexts=contexts.astype(np.int64),
        tables=tables.reshape(rows, widest),
        last=sampled.astype(np.int64),
        block_tokens=block_tokens,
    )
    return StepOrder(packed, *moves)
