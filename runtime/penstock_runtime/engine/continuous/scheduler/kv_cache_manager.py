"""Blocks for sequences: what a slot needs, gets, grows by and gives back, while earlier steps still run.

A block that a plan in flight names is released when that plan settles, never before; full blocks are
published then, too, so the prefix cache only ever holds what was really computed.
"""

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.scheduler.block_manager import BlockManager, HostBlocks
from penstock_runtime.engine.continuous.scheduler.prefix_hash import HashChain, root_hash
from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.continuous.step_plan import BlockCopy, StepPlan


@dataclass(slots=True)
class Flight:
    """A plan that has not settled, and what waits for it."""

    plan: StepPlan
    slots: list[SequenceState] = field(default_factory=list)
    """Of its rows, one a row."""
    released: list[list[int]] = field(default_factory=list)
    copied: list[list[int]] = field(default_factory=list)
    host_released: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class PrefixTotals:
    """How often the prefix cache helped, in tokens, ever."""

    asked: int = 0
    hit: int = 0


class KvCacheManager:
    """Owns the ledger, the host's blocks, and what waits for steps in flight."""

    def __init__(self, info: GenerationInfo) -> None:
        self.ledger = BlockManager(info.kv.blocks, info.kv.block_tokens)
        self.host = HostBlocks(info.kv.host_blocks)
        self.flights: deque[Flight] = deque()
        self.prefix = PrefixTotals()
        self.swapped_blocks = 0
        self._revision = info.revision

    def chain(self, salt: str) -> HashChain:
        """Return the names of a new sequence's blocks."""
        return HashChain(root_hash(self._revision, "", salt), self.ledger.block_tokens)

    @property
    def pending(self) -> int:
        """Blocks that come back once the steps in flight have settled; shared ones are counted, too."""
        return sum(
            len(blocks) for flight in self.flights for blocks in (*flight.released, *flight.copied)
        )

    def needed(self, slot: SequenceState) -> int:
        """Return how many blocks hold everything that `slot` is to be fed."""
        return self.ledger.blocks_for(slot.sequence.length)

    def growth(self, slot: SequenceState) -> int:
        """Return how many blocks `slot` lacks for its next token."""
        return self.needed(slot) - len(slot.blocks)

    # -- getting

    def admit(
        self, slot: SequenceState, plan: StepPlan, sibling: SequenceState | None, spare: int
    ) -> bool:
        """Give `slot` all blocks that it needs to run, leaving `spare` available; return whether it has them.

        Computed positions come back from the host, or are those of `sibling`, or are found in the prefix
        cache, as far as they can.
        """
        if slot.host:
            return self._swap_in(slot, plan, spare)
        if sibling is not None:
            return self._fork(slot, plan, sibling, spare)
        return self._find_prefix(slot, spare)

    def grow(self, slot: SequenceState) -> bool:
        """Give `slot` the block its next token needs; return whether it has it."""
        lacks = self.growth(slot)
        if lacks <= 0:
            return True
        if lacks > self.ledger.available:
            return False
        slot.blocks.extend(self.ledger.allocate(lacks))
        return True

    def _find_prefix(self, slot: SequenceState, spare: int) -> bool:
        sequence, size = slot.sequence, self.ledger.block_tokens
        full = min(
            (sequence.length - 1) // size, len(sequence.ids) // size, sequence.reusable // size
        )
        names = slot.chain.upto(sequence.ids, full)
        found = self.ledger.found(names)
        revived = found - self.ledger.found_in_use(names[:found])
        fresh = self.needed(slot) - found
        if fresh + revived + spare > self.ledger.available:
            return False
        slot.blocks = self.ledger.share(names[:found]) + self.ledger.allocate(fresh)
        slot.settled = sequence.computed = found * size
        self.prefix.asked += len(sequence.ids)
        self.prefix.hit += sequence.computed
        return True

    def _fork(
        self, slot: SequenceState, plan: StepPlan, sibling: SequenceState, spare: int
    ) -> bool:
        """Share the sibling's full blocks and copy the one that both would write."""
        sequence = slot.sequence
        full = (sequence.length - 1) // self.ledger.block_tokens
        fresh = self.needed(slot) - full
        if fresh + spare > self.ledger.available:
            return False
        shared = sibling.blocks[:full]
        self.ledger.share_blocks(shared)
        slot.blocks = [*shared, *self.ledger.allocate(fresh)]
        sequence.computed = slot.settled = sequence.length - 1
        if sequence.computed % self.ledger.block_tokens:
            plan.copies.append(BlockCopy(sibling.blocks[full], slot.blocks[full]))
            slot.last_plan = sibling.last_plan = plan.number
        return True

    def _swap_in(self, slot: SequenceState, plan: StepPlan, spare: int) -> bool:
        fresh = self.needed(slot)
        if self._in_flight(slot.last_plan) or fresh + spare > self.ledger.available:
            return False
        slot.blocks = self.ledger.allocate(fresh)
        copies = [BlockCopy(*pair) for pair in zip(slot.host, slot.blocks, strict=False)]
        plan.swap_in.extend(copies)
        self.swapped_blocks += len(copies)
        self.flights[-1].host_released.append(slot.host)
        slot.host, slot.settled, slot.last_plan = [], slot.sequence.computed, plan.number
        return True

    # -- giving back

    def give_up(self, slot: SequenceState) -> None:
        """Release everything that `slot` has, as soon as no step in flight names it."""
        flight = self._in_flight(slot.last_plan)
        if slot.blocks:
            if flight is None:
                self.ledger.release(slot.blocks)
            else:
                flight.released.append(slot.blocks)
        if slot.host:
            if flight is None:
                self.host.release(slot.host)
            else:
                flight.host_released.append(slot.host)
        slot.blocks, slot.host, slot.settled = [], [], 0

    def swap_out(self, slot: SequenceState, plan: StepPlan) -> bool:
        """Move what `slot` has computed to the host within `plan`; return whether there was room."""
        count = self.ledger.blocks_for(slot.sequence.computed)
        if not 0 < count <= self.host.free:
            return False
        slot.host = self.host.allocate(count)
        plan.swap_out.extend(BlockCopy(*pair) for pair in zip(slot.blocks, slot.host, strict=False))
        self.swapped_blocks += count
        self.ledger.begin_copying(slot.blocks)
        self.flights[-1].copied.append(slot.blocks)
        slot.blocks, slot.settled, slot.last_plan = [], 0, plan.number
        return True

    # -- flights

    def settle(self, plan: StepPlan, failed: Container[int], late: Container[int] = ()) -> None:
        """Publish what `plan` computed, except its `failed` rows, and release what waited for it.

        The last position of a `late` row is not published: it is written again, and a shared block never is.
        """
        flight = self.flights.popleft()
        if flight.plan is not plan:
            raise ValueError(f"plan {plan.number} settles before plan {flight.plan.number}")
        size = self.ledger.block_tokens
        for index, (row, slot) in enumerate(zip(plan.rows, flight.slots, strict=True)):
            if index in failed:
                continue
            start, blocks = row.start, row.blocks
            end = min(start + row.count, len(slot.sequence.ids)) - (index in late)
            if slot.blocks is blocks:
                slot.settled = end
            if start // size < end // size:
                self._publish(slot, blocks, start // size, end // size)
        for blocks in flight.released:
            self.ledger.release(blocks)
        for blocks in flight.copied:
            self.ledger.end_copying(blocks)
        for blocks in flight.host_released:
            self.host.release(blocks)

    def _publish(self, slot: SequenceState, blocks: list[int], first: int, full: int) -> None:
        names = slot.chain.upto(slot.sequence.ids, full)
        for index in range(first, full):
            self.ledger.publish(blocks[index], names[index])

    def begin(self, plan: StepPlan) -> Flight:
        """Count `plan`, which is being made, as in flight from now on; return what will wait for it."""
        self.flights.append(Flight(plan))
        return self.flights[-1]

    def withdraw(self) -> None:
        """Forget the plan that was being made: it turned out to have nothing to do."""
        self.flights.pop()

    def _in_flight(self, number: int) -> Flight | None:
        for flight in self.flights:
            if flight.plan.number == number:
                return flight
        return None

    def check(self) -> None:
        """Raise AssertionError unless every block, on device and host, is in exactly one state."""
        self.ledger.check()
        self.host.check()
