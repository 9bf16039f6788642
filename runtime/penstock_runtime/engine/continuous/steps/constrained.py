"""`ConstrainedSampling`: the sampling inputs of steps, with grammar masks that other processes compute meanwhile.

A row whose mask is not there when the step draws is late: no token is drawn for it, and its last token is fed again in
the next plan. Where a plan already submitted feeds the token that was not drawn, that row is void.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import numpy as np
from msgspec.structs import replace

from penstock_runtime.engine.continuous.grammar.base import (
    Allowed,
    Broken,
    Complete,
    Grammar,
    GrammarSource,
)
from penstock_runtime.engine.continuous.messages import FinishReason
from penstock_runtime.engine.continuous.sequence import Sequence, TokenRef
from penstock_runtime.engine.continuous.steps.sampling_inputs import (
    Draw,
    SamplingInputs,
    sampling_inputs,
)
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan

MASK_WAIT_SECONDS: Final = 0.01
"""How long a step waits for masks after its forward pass."""


class Undrawn(Enum):
    """Why no token was drawn for a row."""

    LATE = "its mask has not arrived"
    VOID = "it was fed a token that was never drawn"
    COMPLETE = "the grammar allows no other token"


Outcomes = dict[int, Undrawn | Broken]
"""By row."""


class ConstrainedSampling:
    """Owns the grammar states of all sequences, and which rows of submitted plans draw no token."""

    def __init__(self, source: GrammarSource | None) -> None:
        self._source = source
        self._count = 0
        """Sequences with a grammar."""
        self._undrawn: dict[int, Outcomes] = {}
        """By plan number."""
        self._dropped: frozenset[TokenRef] = frozenset()
        """Tokens that the last settled plan should have drawn and did not."""
        self._late: frozenset[Grammar] = frozenset()
        """Grammars whose mask did not arrive during the last step's wait."""

    def start(self, address: str, sequences: Iterable[Sequence]) -> None:
        """Start a grammar state for each of `sequences`.

        Raises:
            ValueError: this engine has no grammars.
        """
        if self._source is None:
            raise ValueError("this engine has no grammars")
        for sequence in sequences:
            sequence.grammar = self._source.start(address)
            self._count += 1

    def leave(self, sequence: Sequence) -> None:
        """Close the grammar state of a sequence that has ended."""
        if sequence.grammar is not None:
            sequence.grammar.close()
            sequence.grammar = None
            self._count -= 1

    def prepare(self, plan: StepPlan) -> None:
        """Request the first masks that `plan` needs."""
        if self._count:
            for row in plan.rows:
                if row.samples and row.sequence.grammar is not None:
                    row.sequence.grammar.begin()

    # -- drawing

    def inputs(self, plan: StepPlan) -> SamplingInputs:
        """Return the sampling inputs of `plan` without masks; all plans before it must have settled."""
        return sampling_inputs(plan, self._grammars(plan))

    def _grammars(self, plan: StepPlan) -> dict[int, Grammar]:
        """Return the grammars of the rows of `plan` that draw a token, by row."""
        if not self._count:
            return {}
        states: dict[int, Grammar] = {}
        outcomes: Outcomes = {}
        for index, row in enumerate(plan.rows):
            if row.samples and row.sequence.grammar is not None:
                if row.placeholder in self._dropped:
                    outcomes[index] = Undrawn.VOID
                else:
                    states[index] = row.sequence.grammar
        if outcomes:
            self._undrawn[plan.number] = outcomes
        return states

    def with_masks(self, plan: StepPlan, unmasked: Callable[[], SamplingInputs]) -> SamplingInputs:
        """Return `unmasked()` with the masks that arrive in time; called in the step's thread, after the forward pass."""
        inputs = unmasked()
        states = inputs.grammars
        if not states or self._source is None:
            return inputs
        self._wait(self._source, states, len(inputs.draws))
        outcomes = self._undrawn.setdefault(plan.number, {})
        draws = [self._masked(draw, states.get(draw.row), outcomes) for draw in inputs.draws]
        candidates = {*self._late, *states.values()}
        self._late = frozenset(grammar for grammar in candidates if grammar.verdict is None)
        return SamplingInputs(tuple(draws))

    def _wait(self, source: GrammarSource, states: dict[int, Grammar], draws: int) -> None:
        """Wait for masks; for those that were late before, only if the step draws nothing else."""
        due = [grammar for grammar in states.values() if grammar not in self._late]
        source.wait(due, MASK_WAIT_SECONDS)
        again = [grammar for grammar in states.values() if grammar in self._late]
        if again:
            source.wait(again, 0.0 if len(again) < draws else MASK_WAIT_SECONDS)

    @staticmethod
    def _masked(draw: Draw, grammar: Grammar | None, outcomes: Outcomes) -> Draw:
        if grammar is None:
            return draw
        match grammar.verdict:
            case None:
                outcomes[draw.row] = Undrawn.LATE
            case Complete():
                outcomes[draw.row] = Undrawn.COMPLETE
            case Broken() as broken:
                outcomes[draw.row] = broken
            case Allowed(mask):
                if not _only_stops(mask, draw):
                    return replace(draw, mask=mask)
                outcomes[draw.row] = Undrawn.COMPLETE
        return draw

    # -- settling

    def settle(self, plan: StepPlan) -> Outcomes:
        """Return the rows of `plan` without a drawn token, and record which tokens are missing."""
        outcomes = self._undrawn.pop(plan.number, {})
        if outcomes or self._dropped:
            late = (row for row, why in outcomes.items() if why is Undrawn.LATE)
            self._dropped = frozenset(TokenRef(plan.number, row) for row in late)
        return outcomes

    def forget(self, plan: StepPlan) -> None:
        """Drop the outcomes of `plan`, whose step raised."""
        self._undrawn.pop(plan.number, None)

    def complete(self, ended: Iterable[Sequence]) -> None:
        """Change the reason of sequences that ended by length to STOP where their grammar is complete."""
        if self._source is None or not self._count:
            return
        cut = [
            (sequence, sequence.grammar)
            for sequence in ended
            if sequence.grammar is not None and sequence.finished is FinishReason.LENGTH
        ]
        if cut:
            self._source.wait([grammar for _, grammar in cut], MASK_WAIT_SECONDS)
        for sequence, grammar in cut:
            if isinstance(grammar.verdict, Complete):
                sequence.finished = FinishReason.STOP


def _only_stops(mask: "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]", draw: Draw) -> bool:
    """Return whether `mask` allows only stop ids where `min_tokens` forbids them."""
    params = draw.params
    if draw.output_tokens >= params.min_tokens or not params.stop_ids:
        return False
    rest = mask.copy()
    for stop in params.stop_ids:
        if stop >> 5 < len(rest):
            rest[stop >> 5] &= np.uint32(~(1 << (stop & 31)) & 0xFFFFFFFF)
    return not rest.any()
