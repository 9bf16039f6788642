"""`KvCacheManager`: allocates blocks to sequences and releases them while earlier steps still run.

A block that a plan in flight names is released when that plan settles, never before. Full blocks are also published
then, so the prefix cache contains only computed positions.
"""

from collections.abc import Container
from dataclasses import dataclass

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.scheduler.block_manager import BlockManager, HostBlocks
from penstock_runtime.engine.continuous.scheduler.plans_in_flight import PlansInFlight
from penstock_runtime.engine.continuous.scheduler.prefix_cache import HashChain, root_hash
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.steps.step_plan import BlockCopy, StepPlan


@dataclass(slots=True)
class PrefixTotals:
    """Tokens looked up in the prefix cache, and those it had, since the start."""

    queried: int = 0
    hit: int = 0


class KvCacheManager:
    """Owns the blocks of device and host, and releases those of a plan in flight when it settles."""

    def __init__(self, info: GenerationInfo) -> None:
        self.spec = info.kv
        self.blocks = BlockManager(info.kv.blocks)
        self.host_blocks = HostBlocks(info.kv.host_blocks)
        self.in_flight = PlansInFlight()
        self.prefix = PrefixTotals()
        self.swapped_blocks = 0
        self._revision = info.revision

    def hash_chain(self, salt: str) -> HashChain:
        """Return the hash chain of a new sequence."""
        return HashChain(root_hash(self._revision, "", salt), self.spec.block_tokens)

    def blocks_needed(self, state: SequenceState) -> int:
        """Return how many blocks the tokens of `state` take."""
        return self.spec.blocks_for(state.sequence.length)

    def blocks_lacking(self, state: SequenceState) -> int:
        """Return how many blocks `state` lacks for its next token."""
        return self.blocks_needed(state) - len(state.blocks)

    def blocks_to_take(self, state: SequenceState, sibling: SequenceState | None) -> int:
        """Return how many available blocks `admit` takes: all that `state` needs but those in use that it shares."""
        shared = self.blocks_to_share(state, sibling)
        return self.blocks_needed(state) - self.blocks.count_in_use(shared)

    def blocks_to_share(self, state: SequenceState, sibling: SequenceState | None) -> list[int]:
        """Return the blocks that `admit` takes from `sibling` or the prefix cache, in use or not."""
        if state.host_blocks:
            return []
        if sibling is not None:
            return sibling.blocks[: (state.sequence.length - 1) // self.spec.block_tokens]
        return self._cached_prefix(state)

    def _cached_prefix(self, state: SequenceState) -> list[int]:
        sequence, size = state.sequence, self.spec.block_tokens
        full = min(
            (sequence.length - 1) // size, len(sequence.ids) // size, sequence.reusable // size
        )
        return self.blocks.prefix.find(state.hash_chain.first(sequence.ids, full))

    # -- allocation

    def admit(
        self, state: SequenceState, plan: StepPlan, sibling: SequenceState | None, reserve: int
    ) -> bool:
        """Allocate all blocks that `state` needs, leaving `reserve` available; return False if too few are free.

        Computed positions are swapped in, shared with `sibling` or taken from the prefix cache, where possible.
        """
        if self.blocks_to_take(state, sibling) + reserve > self.blocks.available:
            return False
        if state.host_blocks:
            return self._swap_in(state, plan)
        if sibling is not None:
            self._fork(state, plan, sibling)
        else:
            self._allocate_after_prefix(state)
        return True

    def grow(self, state: SequenceState) -> bool:
        """Allocate the block that the next token of `state` needs; return False if none is available."""
        lacks = self.blocks_lacking(state)
        if lacks <= 0:
            return True
        if lacks > self.blocks.available:
            return False
        state.blocks.extend(self.blocks.allocate(lacks))
        return True

    def _allocate_after_prefix(self, state: SequenceState) -> None:
        sequence, shared = state.sequence, self._cached_prefix(state)
        self.blocks.share(shared)
        state.blocks = shared + self.blocks.allocate(self.blocks_needed(state) - len(shared))
        state.settled = sequence.computed = len(shared) * self.spec.block_tokens
        self.prefix.queried += len(sequence.ids)
        self.prefix.hit += sequence.computed

    def _fork(self, state: SequenceState, plan: StepPlan, sibling: SequenceState) -> None:
        """Share the sibling's full blocks and copy the last one, which both would write."""
        sequence = state.sequence
        full = (sequence.length - 1) // self.spec.block_tokens
        shared = sibling.blocks[:full]
        self.blocks.share(shared)
        state.blocks = [*shared, *self.blocks.allocate(self.blocks_needed(state) - full)]
        sequence.computed = state.settled = sequence.length - 1
        if sequence.computed % self.spec.block_tokens:
            plan.copies.append(BlockCopy(sibling.blocks[full], state.blocks[full]))
            state.last_plan = sibling.last_plan = plan.number

    def _swap_in(self, state: SequenceState, plan: StepPlan) -> bool:
        if self.in_flight.find(state.last_plan):
            return False
        state.blocks = self.blocks.allocate(self.blocks_needed(state))
        copies = [BlockCopy(*pair) for pair in zip(state.host_blocks, state.blocks, strict=False)]
        plan.swap_in.extend(copies)
        self.swapped_blocks += len(copies)
        self.in_flight.latest.host_released.append(state.host_blocks)
        state.host_blocks, state.settled, state.last_plan = [], state.sequence.computed, plan.number
        return True

    # -- release

    def release(self, state: SequenceState) -> None:
        """Release all blocks of `state` as soon as no plan in flight names them."""
        flight = self.in_flight.find(state.last_plan)
        if state.blocks:
            if flight is None:
                self.blocks.release(state.blocks)
            else:
                flight.released.append(state.blocks)
        if state.host_blocks:
            if flight is None:
                self.host_blocks.release(state.host_blocks)
            else:
                flight.host_released.append(state.host_blocks)
        state.blocks, state.host_blocks, state.settled = [], [], 0

    def swap_out(self, state: SequenceState, plan: StepPlan) -> bool:
        """Swap out the computed blocks of `state` within `plan`; return False if too few host blocks are free."""
        count = self.spec.blocks_for(state.sequence.computed)
        if not 0 < count <= self.host_blocks.free:
            return False
        state.host_blocks = self.host_blocks.allocate(count)
        plan.swap_out.extend(
            BlockCopy(*pair) for pair in zip(state.blocks, state.host_blocks, strict=False)
        )
        self.swapped_blocks += count
        self.blocks.begin_copying(state.blocks)
        self.in_flight.latest.copied.append(state.blocks)
        state.blocks, state.settled, state.last_plan = [], 0, plan.number
        return True

    # -- settlement

    def settle(self, plan: StepPlan, failed: Container[int], late: Container[int] = ()) -> None:
        """Publish the full blocks that `plan` computed, except of sequences with a failed row, and carry out its releases.

        The last known position of a `late` row does not count as computed: it is written again, and a shared block must
        never be rewritten.
        """
        flight = self.in_flight.settle(plan)
        size = self.spec.block_tokens
        for index, (row, state) in enumerate(zip(plan.rows, flight.states, strict=True)):
            if index in failed:
                state.broken = True
            if state.broken:
                continue
            start, blocks = row.start, row.blocks
            end = min(start + row.count, len(state.sequence.ids)) - (index in late)
            if state.blocks is blocks:
                state.settled = end
            if start // size < end // size:
                self._publish(state, blocks, start // size, end // size)
        for blocks in flight.released:
            self.blocks.release(blocks)
        for blocks in flight.copied:
            self.blocks.end_copying(blocks)
        for blocks in flight.host_released:
            self.host_blocks.release(blocks)

    def _publish(self, state: SequenceState, blocks: list[int], first: int, full: int) -> None:
        hashes = state.hash_chain.first(state.sequence.ids, full)
        for index in range(first, full):
            self.blocks.publish(blocks[index], hashes[index])

    def check(self) -> None:
        """Raise AssertionError unless every block, on device and host, is in exactly one state."""
        self.blocks.check()
        self.host_blocks.check()
