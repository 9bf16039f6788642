"""Who yields: to a better arrival, to a lowered cap, or because blocks ran out; and how."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock_api.limits import Discipline
from penstock_runtime.batching.blocks import BlockLedger
from penstock_runtime.batching.tokens.line import Line
from penstock_runtime.batching.tokens.slot import Slot
from penstock_runtime.generation.limits import Preemption
from penstock_runtime.waiting.disciplines import priority_class

QUANTUM: Final = 16
"""Positions that a sequence feeds before an arrival may take its place again: one block's worth."""
MOST_PREEMPTIONS: Final = 3
"""Afterwards a sequence is no victim, except of a lowered cap: nobody is recomputed for ever."""
FAIR_MARGIN: Final = 64.0
"""Under FairShare an arrival's tenant must be so many positions behind: counters move with every step."""


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
    line: Line, preemption: Preemption, arrival: Slot, running: Iterable[Slot]
) -> list[Slot]:
    """Return those of `running` whose place `arrival` may take."""
    if preemption is Preemption.NEVER:
        return []
    if preemption is Preemption.TIME_SLICE:
        return [slot for slot in running if _yields(slot) and arrival.level < slot.level]
    if line.discipline is Discipline.FAIR_SHARE:
        bar = line.served(arrival.tenant) + FAIR_MARGIN
        return [slot for slot in running if _yields(slot) and bar < line.served(slot.tenant)]
    key = line.key(arrival)
    return [slot for slot in running if _yields(slot) and key[:2] < line.key(slot)[:2]]


def _yields(slot: Slot) -> bool:
    return slot.ran >= QUANTUM and slot.sequence.preemptions < MOST_PREEMPTIONS


def behind(line: Line, slot: Slot, others: Iterable[Slot]) -> list[Slot]:
    """Return those of `others` that rank behind `slot` and may still be preempted, for want of blocks."""
    key = line.key(slot)
    return [
        other
        for other in others
        if other.blocks and other.sequence.preemptions < MOST_PREEMPTIONS and line.key(other) > key
    ]


def choose(line: Line, ledger: BlockLedger, candidates: list[Slot]) -> Slot:
    """Return the candidate to preempt: of the lowest class, tenant or level, the one that loses least.

    What it loses are blocks that nobody shares and no name finds: only those must be computed again.
    """
    return min(candidates, key=lambda slot: (-_band(line, slot), _cost(ledger, slot), -slot.number))


def last(line: Line, running: Iterable[Slot]) -> Slot:
    """Return whom the discipline would serve last."""
    return max(running, key=line.key)


def _cost(ledger: BlockLedger, slot: Slot) -> int:
    return ledger.lost_if_released(slot.blocks)


def _band(line: Line, slot: Slot) -> float:
    if line.sliced:
        return slot.level
    if line.discipline is Discipline.PRIORITY:
        return priority_class(slot.priority)
    if line.discipline is Discipline.FAIR_SHARE:
        return line.served(slot.tenant)
    return 0.0
