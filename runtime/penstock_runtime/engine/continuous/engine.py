"""`GenerationEngine`: the requests of a generation engine and the limits in force. Every request ends exactly once.

The engine uses no thread, clock, socket or tensor: messages, results and `now` come in, plans and `Stepped` values
go out. The scheduler chooses the sequences of each step; `Settlement` interprets their tokens.
"""

from typing import assert_never

from penstock_runtime.engine.continuous.drain import GenerationDrain
from penstock_runtime.engine.continuous.grammar.base import GrammarSource
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.messages import (
    FinishReason,
    Generate,
    GenerationReport,
    Stepped,
    Stop,
    ToGeneration,
)
from penstock_runtime.engine.continuous.request_ledger import GenerationLedger
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.service_curve import GenerationServiceCurve
from penstock_runtime.engine.continuous.steps.constrained import ConstrainedSampling
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.reporting import StepReporter
from penstock_runtime.engine.continuous.steps.settlement import Settlement
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan, StepResult
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits
from penstock_runtime.request import Cancelled, Expired, Failed


class GenerationEngine:
    """Iteration-level batching: one plan per step, and `settle` for every plan in order."""

    def __init__(
        self, info: GenerationInfo, scheduler: Scheduler, grammars: GrammarSource | None = None
    ) -> None:
        self._scheduler = scheduler
        self.sampling = ConstrainedSampling(grammars)
        self._ledger = GenerationLedger(self._leave)
        self._curve = GenerationServiceCurve(info.warm_up)
        self._drain = GenerationDrain(scheduler, self._ledger, self._curve)
        self._settlement = Settlement(self._ledger, scheduler, self.sampling)
        self._reporter = StepReporter(scheduler, self._curve)

    # -- messages

    def take(self, message: ToGeneration, now: float) -> None:
        """Process one message; it takes effect with the next plan."""
        match message:
            case Generate():
                self._admit(message, now)
            case Cancel(ids):
                for name in ids:
                    self._ledger.end(name, Cancelled())
            case Stop(choices):
                for name, choice in choices:
                    self._stop(self._ledger.sequence(name, choice), now)
            case SetLimits(update):
                self._scheduler.set_limits(GenerationLimits.from_update(update), now)
            case Drain():
                self._drain.start(message)
                for name, rejection in self._drain.rejections(now):
                    self._ledger.end(name, rejection)
            case _:
                assert_never(message)

    def _admit(self, message: Generate, now: float) -> None:
        sequences = self._ledger.open(message)
        rejection = self._drain.rejection(sequences, now)
        if rejection is not None:
            self._ledger.end(message.id, rejection)
            return
        if message.grammar is not None:
            self.sampling.start(message.grammar, sequences)
        for sequence in sequences:
            self._scheduler.add(sequence, now)

    def _stop(self, sequence: Sequence | None, now: float) -> None:
        if sequence is not None:
            sequence.finished = FinishReason.STOP
            self._ledger.finish(sequence, now)

    def _leave(self, sequence: Sequence) -> None:
        """Release the slot, blocks and grammar of a sequence that finished or whose request ended."""
        self._scheduler.remove(sequence)
        self.sampling.leave(sequence)

    def fail_all(self, reason: str, retry_after_seconds: float) -> None:
        """Fail all requests that have not ended, before the engine closes."""
        for name in self._ledger.pending():
            self._ledger.end(name, Failed(reason, retry_after_seconds))

    # -- a step

    def plan(self, now: float) -> StepPlan | Idle:
        """Expire overdue requests, interrupt all at the deadline of a drain, then return the next step."""
        for sequence in list(self._scheduler.expired(now)):
            self._ledger.end(sequence.request.id, Expired(now - sequence.request.arrived))
        if now >= self._drain.deadline:
            for name in self._ledger.pending():
                self._ledger.interrupt(name, now)
        planned = self._scheduler.plan(now)
        if isinstance(planned, StepPlan):
            self.sampling.prepare(planned)
        return planned

    def predicted_seconds(self, plan: StepPlan) -> float:
        """Return the predicted duration of `plan`."""
        return self._curve.mean_seconds() * max(1.0, plan.tokens / self._curve.mean_tokens())

    def settle(self, result: StepResult, now: float, idle_seconds: float = 0.0) -> None:
        """Apply the result of a plan, before which the device was idle for `idle_seconds`."""
        self._settlement.settle(result, now)
        self._reporter.record(result, idle_seconds)

    def fail_plan(self, plan: StepPlan, reason: str, now: float) -> None:
        """Settle a plan that raised: its requests fail, all others continue."""
        rows = range(len(plan.rows))
        self.sampling.forget(plan)
        self.settle(StepResult(plan, [None for _ in rows], dict.fromkeys(rows, reason), 0.0), now)

    # -- reports

    def settled(self) -> Stepped | None:
        """Return the events and the report since the last call, or None when nothing changed."""
        return self._reporter.stepped(self._ledger.collect(), self._settlement.generated_tokens)

    def report(self) -> GenerationReport:
        """Return the current report."""
        return self._reporter.report(self._settlement.generated_tokens)
