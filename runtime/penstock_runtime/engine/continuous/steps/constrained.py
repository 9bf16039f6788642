"""`ConstrainedSampling`: the sampling inputs of steps, with grammar masks that other processes compute concurrently.

A row whose mask has not arrived when the step samples is late: no token is sampled for it, and the next plan feeds its
last token again. A row of an already submitted plan that was to feed the missing token is void.
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


class Unsampled(Enum):
    """Why no token was sampled for a row."""

    LATE = "its mask has not arrived"
    VOID = "it was fed a token that was never sampled"
    COMPLETE = "the grammar allows no other token"


Outcomes = dict[int, Unsampled | Broken]
"""By row."""


class ConstrainedSampling:
    """Owns the grammar states of all sequences, and the rows of submitted plans for which no token is sampled."""

    def __init__(self, source: GrammarSource | None) -> None:
        self._source = source
        self._count = 0
        """Sequences with a grammar."""
        self._unsampled: dict[int, Outcomes] = {}
        """By plan number."""
        self._dropped: frozenset[TokenRef] = frozenset()
        """Tokens of the late rows of the last settled plan, which were not sampled."""
        self._late: frozenset[Grammar] = frozenset()
        """Grammars whose mask did not arrive during the last step's wait."""

    def start(self, address: str, sequences: Iterable[Sequence]) -> None:
        """Start a grammar state for each of `sequences`, after the output that they have.

        Raises:
            ValueError: this engine has no grammars.
        """
        if self._source is None:
            raise ValueError("this engine has no grammars")
        for sequence in sequences:
            sequence.grammar = self._source.start(address)
            if sequence.output_tokens:
                sequence.grammar.resume(sequence.ids[sequence.request.prompt_tokens :])
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

    # -- sampling

    def inputs(self, plan: StepPlan) -> SamplingInputs:
        """Return the sampling inputs of `plan` without masks; all plans before it must have settled."""
        return sampling_inputs(plan, self._grammars(plan))

    def _grammars(self, plan: StepPlan) -> dict[int, Grammar]:
        """Return the grammars of the rows of `plan` that sample a token, by row."""
        if not self._count:
            return {}
        states: dict[int, Grammar] = {}
        outcomes: Outcomes = {}
        for index, row in enumerate(plan.rows):
            if row.samples and row.sequence.grammar is not None:
                if row.placeholder in self._dropped:
                    outcomes[index] = Unsampled.VOID
                else:
                    states[index] = row.sequence.grammar
        if outcomes:
            self._unsampled[plan.number] = outcomes
        return states

    def with_masks(self, plan: StepPlan, unmasked: Callable[[], SamplingInputs]) -> SamplingInputs:
        """Return `unmasked()` with the masks that arrive in time; called in the step's thread, after the forward pass."""
        inputs = unmasked()
        states = inputs.grammars
        if not states or self._source is None:
            return inputs
        self._wait(self._source, states, len(inputs.draws))
        outcomes = self._unsampled.setdefault(plan.number, {})
        draws = [self._masked(draw, states.get(draw.row), outcomes) for draw in inputs.draws]
        candidates = {*self._late, *states.values()}
        self._late = frozenset(grammar for grammar in candidates if grammar.verdict is None)
        return SamplingInputs(tuple(draws))

    def _wait(self, source: GrammarSource, states: dict[int, Grammar], draws: int) -> None:
        """Wait for masks; for masks that were late before, only if the step samples nothing else."""
        due = [grammar for grammar in states.values() if grammar not in self._late]
        source.wait(due, MASK_WAIT_SECONDS)
        late = [grammar for grammar in states.values() if grammar in self._late]
        if late:
            source.wait(late, 0.0 if len(late) < draws else MASK_WAIT_SECONDS)

    @staticmethod
    def _masked(draw: Draw, grammar: Grammar | None, outcomes: Outcomes) -> Draw:
        if grammar is None:
            return draw
        match grammar.verdict:
            case None:
                outcomes[draw.row] = Unsampled.LATE
            case Complete():
                outcomes[draw.row] = Unsampled.COMPLETE
            case Broken() as broken:
                outcomes[draw.row] = broken
            case Allowed(mask):
                if not _only_stops(mask, draw):
                    return replace(draw, mask=mask)
                outcomes[draw.row] = Unsampled.COMPLETE
        return draw

    # -- settling

    def settle(self, plan: StepPlan) -> Outcomes:
        """Return the rows of `plan` without a sampled token, and record which tokens are missing."""
        outcomes = self._unsampled.pop(plan.number, {})
        if outcomes or self._dropped:
            late = (row for row, why in outcomes.items() if why is Unsampled.LATE)
            self._dropped = frozenset(TokenRef(plan.number, row) for row in late)
        return outcomes

    def forget(self, plan: StepPlan) -> None:
        """Drop the outcomes of `plan`, whose step raised."""
        self._unsampled.pop(plan.number, None)

    def complete(self, ended: Iterable[Sequence]) -> None:
        """Change the finish reason of `ended` sequences from LENGTH to STOP where their grammar is complete."""
        if self._source is None or not self._count:
            return
        truncated = [
            (sequence, sequence.grammar)
            for sequence in ended
            if sequence.grammar is not None and sequence.finished is FinishReason.LENGTH
        ]
        if truncated:
            self._source.wait([grammar for _, grammar in truncated], MASK_WAIT_SECONDS)
        for sequence, grammar in truncated:
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
