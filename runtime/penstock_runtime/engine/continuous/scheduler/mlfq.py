"""Skip-join multi-level feedback queue (FastServe, Wu et al. 2023): long-running sequences sink below new ones.

A sequence joins at the first level whose quantum covers its prompt, and sinks by one level whenever it has
used up that level's quantum of positions. Levels are served in order, but each level delays a sequence by at most
LEVEL_SECONDS, so that no sequence starves.
"""

from typing import Final

from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState

FIRST_QUANTUM: Final = 32
"""Quantum of level 0 in positions, about the first words of a chat reply; it doubles with every level."""
LEVELS: Final = 12
LEVEL_SECONDS: Final = 5.0
"""Waiting time that outweighs one level, in seconds."""


def quantum(level: int) -> int:
    """Return how many positions a sequence may feed in `level`."""
    return FIRST_QUANTUM << level


def assign_level(state: SequenceState) -> None:
    """Set the first level of a new sequence."""
    level = 0
    while level < LEVELS - 1 and quantum(level) < state.sequence.request.prompt_tokens:
        level += 1
    state.level, state.level_positions = level, 0


def record_positions(state: SequenceState, positions: int) -> None:
    """Count the positions that a plan feeds; a sequence that has used up its quantum sinks by one level."""
    state.run_positions += positions
    state.level_positions += positions
    if state.level_positions >= FIRST_QUANTUM << state.level and state.level < LEVELS - 1:
        state.level += 1
        state.level_positions = 0
