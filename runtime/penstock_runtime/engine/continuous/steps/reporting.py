"""`StepReporter`: the report of a generation engine after each step, and the service curve of its steps."""

from typing import Any

from msgspec.structs import astuple

from penstock_runtime.engine.continuous.messages import (
    Event,
    GenerationReport,
    SchedulerReport,
    Stepped,
    StepReport,
)
from penstock_runtime.engine.continuous.service_curve import GenerationServiceCurve
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.step_plan import StepResult


class StepReporter:
    """Records settled steps, and reports when something has changed since the last report."""

    def __init__(self, scheduler: Scheduler, curve: GenerationServiceCurve) -> None:
        self._scheduler = scheduler
        self._curve = curve
        self._busy_seconds = 0.0
        self._step: StepReport | None = None
        """The last settled step, until it is reported."""
        self._reported: tuple[int, int, int] | None = None

    def record(self, result: StepResult, idle_seconds: float) -> None:
        """Record a settled step, and how long the device was idle before it."""
        plan, rows = result.plan, result.plan.rows
        tokens = sum([row.count for row in rows])
        kv_tokens = tokens + sum([row.start for row in rows])
        decode = sum([row.count == 1 and row.samples for row in rows])
        prefill = tokens - decode
        self._busy_seconds += result.seconds
        self._step = StepReport(prefill, decode, kv_tokens, result.seconds, idle_seconds)
        if plan.rows and not (plan.swap_in or plan.swap_out or result.failed or result.captured):
            self._curve.note(prefill, decode, kv_tokens, result.seconds)

    def stepped(self, events: tuple[Event, ...], generated_tokens: int) -> Stepped | None:
        """Return `events` with the step and the report since the last call, or None when nothing changed."""
        step, scheduled = self._step, self._scheduler.report()
        state = (scheduled.generation, scheduled.running, scheduled.surplus)
        if not events and step is None and state == self._reported:
            return None
        self._reported, self._step = state, None
        return Stepped(events, step, self._report(scheduled, generated_tokens))

    def report(self, generated_tokens: int) -> GenerationReport:
        """Return the current report."""
        return self._report(self._scheduler.report(), generated_tokens)

    def _report(self, scheduled: SchedulerReport, generated_tokens: int) -> GenerationReport:
        values: tuple[Any, ...] = (
            *astuple(scheduled),
            generated_tokens,
            self._busy_seconds,
            self._curve.sums(),
            self._curve.previous(),
        )
        return GenerationReport(*values)
