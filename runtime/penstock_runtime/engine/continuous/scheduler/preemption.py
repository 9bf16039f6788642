"""Who yields: to a better arrival, to a lowered cap, or because blocks ran out; and how."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.limits import Preemption
from penstock_runtime.engine.continuous.scheduler.block_manager import BlockManager
from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.continuous.scheduler.waiting_line import WaitQueue
from penstock_runtime.engine.queue.disciplines import priority_class

QUANTUM: Final = 16
"""Positions that a sequence feeds before an arrival may take its place again: one block's worth."""
MOST_PREEMPTIONS: Final = 3
"""Afterwards a sequence is no victim, except of a lowered cap: nobody is recomputed for ever."""
MOST_SLICES: Final = 6
"""The same where time is sliced: there a preemption is the rule, and nearly free, for full blocks stay cached.

With 3 the slices of a long answer end while it still has most of its way to go, and short ones wait for it again.
In `test_shares.py` their p99 then is 3.4 times better than without slices, with 6 it is 42 times better; long
answers take 1.08 and 1.11 times as long.
"""


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """What decides between computing again and swapping; measured, or told, by the engine."""

    prefill_token_seconds: float = 50e-6
    copied_block_seconds: float = 20e-6
    """Of one block, one way."""

    def swap_is_cheaper(self, lost_tokens: int, blocks: int) -> bool:
        """Return whether copying `blocks` out and in costs less than computing `lost_tokens` again."""
        return 2 * blocks * self.copied_block_seconds < lost_tokens * self.prefill_token_seconds


def beaten(
    line: WaitQueue,
    preemption: Preemption,
    arrival: SequenceState,
    running: Collection[SequenceState],
) -> list[SequenceState]:
    """Return those of `running` whose place `arrival` may take."""
    if preemption is Preemption.NEVER:
        return []
    if preemption is Preemption.TIME_SLICE:
        sunk = (slot for slot in running if arrival.level < slot.level)
        return [slot for slot in sunk if _yields(slot, MOST_SLICES)]
    bar = line.rank(arrival)
    if line.discipline is Discipline.FAIR_SHARE:
        rich = _tenants_with_more_places(arrival, running)
        return [
            slot
            for slot in running
            if slot.tenant in rich and bar <= line.rank(slot) and _yields(slot)
        ]
    return [slot for slot in running if bar < line.rank(slot) and _yields(slot)]


def _tenants_with_more_places(arrival: SequenceState, running: Iterable[SequenceState]) -> set[str]:
    """Return who holds two places more than the arrival's tenant: one that changes hands is worth its price."""
    places = Counter(slot.tenant for slot in running)
    return {tenant for tenant, held in places.items() if held >= places[arrival.tenant] + 2}


def _yields(slot: SequenceState, most: int = MOST_PREEMPTIONS) -> bool:
    return slot.ran >= QUANTUM and slot.sequence.stats.preemptions < most


def behind(
    line: WaitQueue, slot: SequenceState, others: Iterable[SequenceState]
) -> list[SequenceState]:
    """Return those of `others` that rank behind `slot` and may still be preempted, for want of blocks."""
    key = line.key(slot)
    return [
        other
        for other in others
        if other.blocks
        and other.sequence.stats.preemptions < MOST_PREEMPTIONS
        and line.key(other) > key
    ]


def choose(line: WaitQueue, ledger: BlockManager, candidates: list[SequenceState]) -> SequenceState:
    """Return the candidate to preempt: of the worst class, or the most served tenant, the one that loses least.

    What it loses are blocks that nobody shares and no name finds: only those must be computed again. Where
    time is sliced, those who yielded least often come first.
    """
    bands = [_band(line, slot) for slot in candidates]
    worst = max(bands)
    tied = [slot for slot, band in zip(candidates, bands, strict=True) if band == worst]
    return min(tied, key=lambda slot: (ledger.lost_if_released(slot.blocks), -slot.number))


def last(line: WaitQueue, running: Iterable[SequenceState]) -> SequenceState:
    """Return whom the discipline would serve last."""
    return max(running, key=line.key)


def _band(line: WaitQueue, slot: SequenceState) -> float:
    if line.sliced:
        return -slot.sequence.stats.preemptions
    if line.discipline is Discipline.PRIORITY:
        return priority_class(slot.priority)
    if line.discipline is Discipline.FAIR_SHARE:
        return line.served(slot.tenant)
    return 0.0
