"""Skip-join multi-level feedback (FastServe, Wu et al. 2023): who has run long yields to who has not.

A sequence joins at the first level whose quantum its prompt fits in, and sinks by one level whenever it has
fed that level's quantum of positions. Levels are served in order, but one level is worth no more than
PATIENCE_SECONDS since arrival, so that nobody starves.
"""

from typing import Final

from penstock_runtime.engine.continuous.scheduler.slot import SequenceState

FIRST_QUANTUM: Final = 32
"""Positions of level 0: a chat turn's first words; each level below has twice as many."""
LEVELS: Final = 12
PATIENCE_SECONDS: Final = 5.0


def quantum(level: int) -> int:
    """Return how many positions a sequence may feed in `level`."""
    return FIRST_QUANTUM << level


def join(slot: SequenceState) -> None:
    """Give a newcomer its first level."""
    level = 0
    while level < LEVELS - 1 and quantum(level) < slot.sequence.request.prompt_tokens:
        level += 1
    slot.level, slot.ran_in_level = level, 0


def note(slot: SequenceState, positions: int) -> None:
    """Count what a sequence was fed, and let it sink when its quantum is used up."""
    slot.ran += positions
    slot.ran_in_level += positions
    if slot.ran_in_level >= FIRST_QUANTUM << slot.level and slot.level < LEVELS - 1:
        slot.level += 1
        slot.ran_in_level = 0
