"""`Settlement`: applies the result of a step to its sequences, and ends the choices and requests that it finishes."""

from penstock_runtime.engine.continuous.grammar.base import Broken
from penstock_runtime.engine.continuous.messages import FinishReason
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.request_ledger import GenerationLedger
from penstock_runtime.engine.continuous.sequence import SampledToken, Sequence
from penstock_runtime.engine.continuous.steps.constrained import (
    ConstrainedSampling,
    Outcomes,
    Unsampled,
)
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.step_plan import StepResult
from penstock_runtime.request import Failed, GrammarUnenforceable


class Settlement:
    """Interprets sampled tokens; the only writer of a sequence's ids, counts and finish reason during a step."""

    def __init__(
        self, ledger: GenerationLedger, scheduler: Scheduler, sampling: ConstrainedSampling
    ) -> None:
        self._ledger = ledger
        self._scheduler = scheduler
        self._sampling = sampling
        self.generated_tokens = 0
        """Tokens accepted since the start, stop ids included."""

    def settle(self, result: StepResult, now: float) -> None:
        """Append the sampled tokens to their sequences, and end the choices that finished and the requests that failed."""
        plan, ended, failed, scored = result.plan, list[Sequence](), result.failed, result.scored
        unsampled = self._sampling.settle(plan)
        holds, accept, seconds = self._ledger.holds, self._accept, result.seconds
        for index, (row, token) in enumerate(zip(plan.rows, result.sampled, strict=True)):
            sequence = row.sequence
            if not holds(sequence):
                continue
            if failed and index in failed and index not in unsampled:
                self._ledger.end(sequence.request.id, Failed(failed[index]))
                continue
            sequence.run_seconds += seconds
            if scored and index in scored:
                self._add_scores(sequence, row.start, scored[index])
            if unsampled and index in unsampled:
                if self._apply_unsampled(sequence, unsampled[index]):
                    ended.append(sequence)
            elif token is not None and accept(sequence, token):
                ended.append(sequence)
        self._sampling.complete(ended)
        for sequence in filter(holds, ended):  # another choice may have failed its request
            self._ledger.finish(sequence, now)
        self._settle_scheduler(result, unsampled)

    def _add_scores(self, sequence: Sequence, start: int, scores: PromptScores) -> None:
        scoring = sequence.prompt_scoring
        if scoring is not None and scoring.add(start, scores):
            self._ledger.emit_scores(sequence.request.id, scoring.parts)

    def _apply_unsampled(self, sequence: Sequence, why: Unsampled | Broken) -> bool:
        """Handle a row without a sampled token; return whether its choice ends."""
        match why:
            case Broken(reason):
                self._ledger.end(sequence.request.id, GrammarUnenforceable(reason))
            case Unsampled.LATE:
                sequence.draw_again()
            case Unsampled.VOID:
                pass
            case Unsampled.COMPLETE:
                sequence.finished = FinishReason.STOP
        return why is Unsampled.COMPLETE

    def _settle_scheduler(self, result: StepResult, unsampled: Outcomes) -> None:
        if not unsampled:
            self._scheduler.settle(result.plan, result.failed)
            return
        again = (Unsampled.LATE, Unsampled.VOID)
        late = {row for row, why in unsampled.items() if why in again}
        self._scheduler.settle(result.plan, result.failed, late)

    def _accept(self, sequence: Sequence, sampled: SampledToken) -> bool:
        """Append the token and record its event; return whether the choice has ended."""
        self.generated_tokens += 1
        reason = sequence.append(sampled.token)
        if sequence.stop_id is None:
            self._ledger.emit(sequence, sampled)
        return reason is not None
