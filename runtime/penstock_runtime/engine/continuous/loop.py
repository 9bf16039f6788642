"""`Loop`: the loop of a generation engine, in a thread or a process: receive, plan, run, settle, report.

At depth 0 a step is planned, run and settled before the next is planned. At depth 1 steps overlap: while step k
runs, k+1 is planned and submitted; then k is settled, k+2 planned, and so on. A plan may feed tokens that the
host does not know yet, so stops and cancellations take effect one step late, and the superfluous token is dropped
when its step settles.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.steps.runner import ReadyResult, Runner, StepFuture
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs, needs_settled
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan, StepResult
from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox, receive
from penstock_runtime.engine.model import DeviceLost, describe


@dataclass(slots=True)
class _SubmittedPlan:
    """A plan that was submitted to the runner and has not settled."""

    plan: StepPlan
    result: StepFuture[StepResult]
    inputs: "Future[SamplingInputs] | None"
    """Sampling inputs that depend on the plan before it; None where they were built at submission."""


@dataclass(frozen=True, slots=True)
class LoopPorts:
    """The loop's connections to its thread or process."""

    post: Callable[[Stepped], None]
    heartbeat: HeartbeatWriter
    clock: Callable[[], float]
    """Monotonic clock, in seconds."""


def serve(
    engine: GenerationEngine, runner: Runner, inbox: Inbox[ToGeneration], ports: LoopPorts
) -> None:
    """Serve until the inbox is closed, then end all remaining requests.

    Raises:
        DeviceLost: no further step can run.
    """
    loop = Loop(engine, runner, ports)
    try:
        until: float | None = None
        while (messages := receive(inbox, until, ports.heartbeat, ports.clock)) is not None:
            now = ports.clock()
            for message in messages:
                engine.take(message, now)
            until = loop.turn()
        loop.finish()
    finally:
        loop.abandon()
        runner.close()


class Loop:
    """Plans, submits and settles steps; `serve` calls `turn` while the inbox is open."""

    def __init__(self, engine: GenerationEngine, runner: Runner, ports: LoopPorts) -> None:
        self._engine = engine
        self._runner = runner
        self._post = ports.post
        self._heartbeat = ports.heartbeat
        self._clock = ports.clock
        self.in_flight: deque[_SubmittedPlan] = deque()
        """Plans submitted and not settled."""
        self._ended: float | None = None
        """When the device ended the last step; None: nothing was runnable since."""

    def turn(self) -> float | None:
        """Plan and submit one step, settle the oldest if the depth is exceeded; return until when to wait."""
        planned = self._engine.plan(self._clock())
        if isinstance(planned, StepPlan):
            self._submit(planned)
        settles = len(self.in_flight) > (self._runner.depth if isinstance(planned, StepPlan) else 0)
        if settles:
            self._settle()
        self._report()
        if isinstance(planned, Idle) and not settles:  # a settled step may let others start
            self._ended = None
            return planned.until
        return self._clock()

    def finish(self) -> None:
        """Settle the plans in flight, then end all remaining requests."""
        while self.in_flight:
            self._settle()
        self._engine.fail_all("the engine was closed", retry_after_seconds=1.0)
        self._report()

    def abandon(self) -> None:
        """Cancel the inputs that a runner may still wait for."""
        for submitted in self.in_flight:
            if submitted.inputs is not None:
                submitted.inputs.cancel()

    def _submit(self, plan: StepPlan) -> None:
        if not self.in_flight:
            self._heartbeat.begin(self._engine.predicted_seconds(plan))
        pending: Future[SamplingInputs] | None = None
        inputs: Callable[[], SamplingInputs]
        if self.in_flight and needs_settled(plan):
            pending = Future()
            inputs = pending.result
        elif not self._runner.depth:  # in this thread: built while the forward pass is under way
            inputs = partial(self._engine.sampling.inputs, plan)
        else:
            inputs = ReadyResult(self._engine.sampling.inputs(plan)).result
        result = self._runner.submit(plan, partial(self._engine.sampling.with_masks, plan, inputs))
        self.in_flight.append(_SubmittedPlan(plan, result, pending))

    def _settle(self) -> None:
        """Wait for the oldest plan, settle it, and build the inputs of the next that depend on it."""
        submitted = self.in_flight.popleft()
        try:
            result = submitted.result.result()
        except DeviceLost:
            raise
        except Exception as error:  # noqa: BLE001  no request may end the engine
            self._engine.fail_plan(submitted.plan, describe(error), self._clock())
        else:
            idle = 0.0 if self._ended is None else max(0.0, result.began - self._ended)
            self._ended = result.began + result.seconds
            self._engine.settle(result, self._clock(), idle)
        if self.in_flight:
            following = self.in_flight[0]
            if following.inputs is not None and not following.inputs.done():
                following.inputs.set_result(self._engine.sampling.inputs(following.plan))
            self._heartbeat.begin(self._engine.predicted_seconds(following.plan))
        else:
            self._heartbeat.end()

    def _report(self) -> None:
        stepped = self._engine.settled()
        if stepped is not None:
            self._post(stepped)
