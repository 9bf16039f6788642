"""Generations under a grammar: their masks are computed elsewhere while the forward runs, and no step waits long for one.

A row whose mask has not come when the step draws is late: nothing is drawn for it, and its last token is fed again in
the next plan. Where a plan already under way feeds the token that was not drawn, that row is void.
"""

from collections.abc import Iterable
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
from penstock_runtime.engine.continuous.sampling_inputs import Draw, SamplingInputs
from penstock_runtime.engine.continuous.sequence import Sequence, TokenRef
from penstock_runtime.engine.continuous.step_plan import StepPlan

PATIENCE_SECONDS: Final = 0.01
"""How long a step waits for masks after its forward."""


class Undrawn(Enum):
    """Why nothing was drawn for a row."""

    LATE = "its mask has not come"
    VOID = "it was fed a token that was never drawn"
    COMPLETE = "the grammar allows no other token"


Outcomes = dict[int, Undrawn | Broken]
"""By row."""


class Constrained:
    """Owns the grammars' states of what is held, and which rows of plans under way draw nothing."""

    def __init__(self, source: GrammarSource | None) -> None:
        self._source = source
        self._held = 0
        self._undrawn: dict[int, Outcomes] = {}
        """By plan."""
        self._dropped: frozenset[TokenRef] = frozenset()
        """Tokens that the plan settled last was to draw and did not."""
        self._late: frozenset[Grammar] = frozenset()
        """Whose mask the last step has waited for in vain."""

    def start(self, address: str, sequences: Iterable[Sequence]) -> None:
        """Give each of `sequences` a state of its own.

        Raises:
            ValueError: this engine has no grammars.
        """
        if self._source is None:
            raise ValueError("this engine has no grammars")
        for sequence in sequences:
            sequence.grammar = self._source.start(address)
            self._held += 1

    def leave(self, sequence: Sequence) -> None:
        """Forget the state of a sequence that has ended."""
        if sequence.grammar is not None:
            sequence.grammar.close()
            sequence.grammar = None
            self._held -= 1

    def prepare(self, plan: StepPlan) -> None:
        """Ask for the first masks that `plan` needs."""
        if self._held:
            for row in plan.rows:
                if row.samples and row.sequence.grammar is not None:
                    row.sequence.grammar.begin()

    # -- drawing

    def states(self, plan: StepPlan) -> dict[int, Grammar]:
        """Return the grammars of `plan`'s rows that draw; all plans before it are settled."""
        if not self._held:
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

    def fill(self, plan: StepPlan, inputs: SamplingInputs) -> SamplingInputs:
        """Return `inputs` with the masks that come in time; called once the forward is done, in the step's thread."""
        states = inputs.grammars
        if not states or self._source is None:
            return inputs
        self._wait(self._source, states, len(inputs.draws))
        outcomes = self._undrawn.setdefault(plan.number, {})
        draws = [self._masked(one, states.get(one.row), outcomes) for one in inputs.draws]
        self._late = frozenset(
            one for one in {*self._late, *states.values()} if one.verdict is None
        )
        return SamplingInputs(tuple(draws))

    def _wait(self, source: GrammarSource, states: dict[int, Grammar], draws: int) -> None:
        """Wait for masks, but not again for those that were late, unless nothing else is drawn."""
        due = [one for one in states.values() if one not in self._late]
        source.wait(due, PATIENCE_SECONDS)
        again = [one for one in states.values() if one in self._late]
        if again:
            source.wait(again, 0.0 if len(again) < draws else PATIENCE_SECONDS)

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
        """Return the rows of `plan` for which nothing was drawn, and remember whose tokens are missing."""
        outcomes = self._undrawn.pop(plan.number, {})
        if outcomes or self._dropped:
            late = (row for row, why in outcomes.items() if why is Undrawn.LATE)
            self._dropped = frozenset(TokenRef(plan.number, row) for row in late)
        return outcomes

    def forget(self, plan: StepPlan) -> None:
        """The step of `plan` raised: what it did not draw no longer matters."""
        self._undrawn.pop(plan.number, None)

    def complete(self, ended: Iterable[Sequence]) -> None:
        """Of those that ended by their length, let those whose grammar is complete end by that."""
        if self._source is None or not self._held:
            return
        cut = [
            (one, one.grammar)
            for one in ended
            if one.grammar is not None and one.finished is FinishReason.LENGTH
        ]
        if cut:
            self._source.wait([grammar for _, grammar in cut], PATIENCE_SECONDS)
        for sequence, grammar in cut:
            if isinstance(grammar.verdict, Complete):
                sequence.finished = FinishReason.STOP


def _only_stops(mask: "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]", draw: Draw) -> bool:
    """Return whether `mask` leaves nothing but stop ids where `min_tokens` forbids those."""
    params = draw.params
    if draw.output_tokens >= params.min_tokens or not params.stop_ids:
        return False
    rest = mask.copy()
    for stop in params.stop_ids:
        if stop >> 5 < len(rest):
            rest[stop >> 5] &= np.uint32(~(1 << (stop & 31)) & 0xFFFFFFFF)
    return not rest.any()
