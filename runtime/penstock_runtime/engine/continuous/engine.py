"""The generation engine: its requests, their events and the limits in force. Every request ends exactly once.

The engine uses no thread, clock, socket or tensor: messages, results and `now` come in, plans and `Stepped` values
go out. The scheduler chooses the sequences of each step; the engine interprets their tokens.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, assert_never

from msgspec.structs import astuple

from penstock_runtime.engine.continuous.drain import unfinishable
from penstock_runtime.engine.continuous.grammar.base import Broken, GrammarSource
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.messages import (
    FinishReason,
    Generate,
    GenerationReport,
    SchedulerReport,
    Stepped,
    StepReport,
    Stop,
    ToGeneration,
)
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.request_ledger import GenerationLedger
from penstock_runtime.engine.continuous.sequence import SampledToken, Sequence
from penstock_runtime.engine.continuous.service_curve import GenerationServiceCurve
from penstock_runtime.engine.continuous.steps.constrained import Constrained, Outcomes, Undrawn
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs, sampling_inputs
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan, StepResult
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits
from penstock_runtime.request import Cancelled, Expired, Failed, GrammarUnenforceable


class GenerationEngine:
    """Iteration-level batching: one plan per step, and `settle` for every plan in order."""

    def __init__(
        self, info: GenerationInfo, scheduler: Scheduler, grammars: GrammarSource | None = None
    ) -> None:
        self._info = info
        self._scheduler = scheduler
        self._constrained = Constrained(grammars)
        self._ledger = GenerationLedger()
        self._curve = GenerationServiceCurve(info.warm_up)
        self._draining: Drain | None = None
        self._step: StepReport | None = None
        self._generated_tokens = 0
        self._busy_seconds = 0.0
        self._reported: tuple[int, int, int] | None = None

    # -- in

    def take(self, message: ToGeneration, now: float) -> None:
        """Process one message; it takes effect with the next plan."""
        match message:
            case Generate():
                self._admit(message, now)
            case Cancel(ids):
                for name in ids:
                    self._end(name, Cancelled())
            case Stop(choices):
                for name, choice in choices:
                    self._stop(name, choice, now)
            case SetLimits(update):
                self._scheduler.set_limits(GenerationLimits.from_update(update), now)
            case Drain():
                self._draining = message
                self._reject_unfinishable(now)
            case _:
                assert_never(message)

    def _admit(self, message: Generate, now: float) -> None:
        sequences = self._ledger.open(message)
        draining = self._draining
        if draining is not None and message.id in self._unfinishable(draining, sequences, now):
            self._end(message.id, draining.refusal())
            return
        if message.grammar is not None:
            self._constrained.start(message.grammar, sequences)
        for sequence in sequences:
            self._scheduler.add(sequence, now)

    def _stop(self, name: str, choice: int, now: float) -> None:
        sequence = self._ledger.sequence(name, choice)
        if sequence is not None:
            sequence.finished = FinishReason.STOP
            self._leave(sequence)
            self._ledger.finish(sequence, now)

    def _leave(self, sequence: Sequence) -> None:
        self._scheduler.remove(sequence)
        self._constrained.leave(sequence)

    def _end(self, name: str, end: Cancelled | Expired | Failed) -> None:
        """End a whole request that has not ended."""
        for sequence in self._ledger.end(name, end):
            self._leave(sequence)

    def _reject_unfinishable(self, now: float) -> None:
        """While draining, reject unstarted requests that cannot finish in time; at the deadline, fail all that remain."""
        if self._draining is None:
            return
        rejection = self._draining.refusal()
        overdue = now >= self._draining.deadline
        for name in self._ledger.held() if overdue else self._unfinishable(self._draining, (), now):
            self._end(name, rejection)

    def _unfinishable(self, drain: Drain, newcomers: Iterable[Sequence], now: float) -> list[str]:
        """Return the requests that the drain rejects, of those waiting and of `newcomers` after them."""
        step_seconds = self._curve.mean_seconds()
        steps = (drain.deadline - now) / step_seconds if step_seconds else math.inf
        waiting = [*self._scheduler.waiting_in_order(), *newcomers]
        return unfinishable(self._ledger.choices(), waiting, self._scheduler.cap, steps)

    # -- a step

    def plan(self, now: float) -> StepPlan | Idle:
        """Expire overdue requests, then return the next step."""
        for sequence in list(self._scheduler.expired(now)):
            self._end(sequence.request.id, Expired(now - sequence.request.arrived))
        if self._draining is not None and now >= self._draining.deadline:
            self._reject_unfinishable(now)
        planned = self._scheduler.plan(now)
        if isinstance(planned, StepPlan):
            self._constrained.prepare(planned)
        return planned

    def sampling_inputs(self, plan: StepPlan) -> SamplingInputs:
        """Return the sampling inputs of `plan` without masks; all plans before it must be settled."""
        return sampling_inputs(plan, self._constrained.states(plan))

    def with_masks(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> SamplingInputs:
        """Return `inputs` with the masks that arrive in time; called in the step's thread, after the forward pass."""
        return self._constrained.fill(plan, inputs())

    def needs_settled(self, plan: StepPlan) -> bool:
        """Return whether `sampling_inputs(plan)` must wait for the plans before it."""
        return any(
            row.samples and (row.sequence.params.needs_counts or row.sequence.grammar is not None)
            for row in plan.rows
        )

    def predicted_seconds(self, plan: StepPlan) -> float:
        """Return the predicted duration of `plan`."""
        return self._curve.mean_seconds() * max(1.0, plan.tokens / self._curve.mean_tokens())

    def settle(self, result: StepResult, now: float, idle_seconds: float = 0.0) -> None:
        """Apply the result of a plan: append tokens to their sequences and end the requests that finished."""
        plan, ended, failed, scored = result.plan, list[Sequence](), result.failed, result.scored
        undrawn = self._constrained.settle(plan)
        holds, accept, seconds = self._ledger.holds, self._accept, result.seconds
        for index, (row, token) in enumerate(zip(plan.rows, result.sampled, strict=True)):
            sequence = row.sequence
            if not holds(sequence):
                continue
            if failed and index in failed and index not in undrawn:
                self._fail(sequence, failed[index])
                continue
            sequence.run_seconds += seconds
            if scored and index in scored:
                self._add_scores(sequence, row.start, scored[index])
            if undrawn and index in undrawn:
                if self._apply_undrawn(sequence, undrawn[index]):
                    ended.append(sequence)
            elif token is not None and accept(sequence, token):
                ended.append(sequence)
        self._constrained.complete(ended)
        for sequence in filter(holds, ended):  # its request may have failed with a later choice
            self._leave(sequence)
            self._ledger.finish(sequence, now)
        self._settle_scheduler(result, undrawn)
        self._record_step(result, idle_seconds)

    def _add_scores(self, sequence: Sequence, start: int, scores: PromptScores) -> None:
        scoring = sequence.prompt_scoring
        if scoring is not None and scoring.add(start, scores):
            self._ledger.tell_scores(sequence.request.id, scoring.parts)

    def _apply_undrawn(self, sequence: Sequence, why: Undrawn | Broken) -> bool:
        """Handle a row without a drawn token; return whether its choice ends."""
        match why:
            case Broken(reason):
                self._end(sequence.request.id, GrammarUnenforceable(reason))
            case Undrawn.LATE:
                sequence.draw_again()
            case Undrawn.VOID:
                pass
            case Undrawn.COMPLETE:
                sequence.finished = FinishReason.STOP
        return why is Undrawn.COMPLETE

    def _settle_scheduler(self, result: StepResult, undrawn: Outcomes) -> None:
        if not undrawn:
            self._scheduler.settle(result.plan, result.failed)
            return
        void = {row for row, why in undrawn.items() if why is Undrawn.VOID}
        late = {row for row, why in undrawn.items() if why is Undrawn.LATE}
        self._scheduler.settle(result.plan, void.union(result.failed), late)

    def _accept(self, sequence: Sequence, sampled: SampledToken) -> bool:
        """Append the token and record its event; return whether the choice has ended."""
        self._generated_tokens += 1
        reason = sequence.append(sampled.token)
        if sequence.stop_id is None:
            self._ledger.tell(sequence, sampled)
        return reason is not None

    def _fail(self, sequence: Sequence, reason: str) -> None:
        self._end(sequence.request.id, Failed(reason))

    def fail_plan(self, plan: StepPlan, reason: str, now: float) -> None:
        """Settle a plan that raised: its requests fail, all others continue."""
        rows = range(len(plan.rows))
        self._constrained.forget(plan)
        self.settle(StepResult(plan, [None for _ in rows], dict.fromkeys(rows, reason), 0.0), now)

    def _record_step(self, result: StepResult, idle_seconds: float) -> None:
        plan, rows = result.plan, result.plan.rows
        tokens = sum([row.count for row in rows])
        kv_tokens = tokens + sum([row.start for row in rows])
        decode = sum([row.count == 1 and row.samples for row in rows])
        prefill = tokens - decode
        self._busy_seconds += result.seconds
        self._step = StepReport(prefill, decode, kv_tokens, result.seconds, idle_seconds)
        if plan.rows and not (plan.swap_in or plan.swap_out or result.failed or result.captured):
            self._curve.note(prefill, decode, kv_tokens, result.seconds)

    # -- out

    def settled(self) -> Stepped | None:
        """Return the events and the report since the last call, or None when nothing changed."""
        events, step = self._ledger.collect(), self._step
        scheduled = self._scheduler.report()
        state = (scheduled.generation, scheduled.running, scheduled.surplus)
        if not events and step is None and state == self._reported:
            return None
        self._reported, self._step = state, None
        return Stepped(events, step, self._report(scheduled))

    def report(self) -> GenerationReport:
        """Return the current report."""
        return self._report(self._scheduler.report())

    def _report(self, scheduled: SchedulerReport) -> GenerationReport:
        values: tuple[Any, ...] = (
            *astuple(scheduled),
            self._generated_tokens,
            self._busy_seconds,
            self._curve.sums(),
            self._curve.previous(),
        )
        return GenerationReport(*values)

    def fail_all(self, reason: str, retry_after_seconds: float) -> None:
        """Fail all requests that have not ended, before the engine closes."""
        for name in self._ledger.held():
            self._end(name, Failed(reason, retry_after_seconds))
