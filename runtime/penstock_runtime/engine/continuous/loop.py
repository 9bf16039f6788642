"""The engine's life, in any placement: take in, plan, run, settle, tell.

At depth 0 a step is planned, run and settled before the next is planned. At depth 1 steps overlap: while
step k runs, k+1 is planned and handed over; then k is settled, k+2 planned, and so on. A plan may feed
tokens that are not known yet; stops and cancellations are therefore seen one step late, and the token that
was computed for nothing is dropped at settle.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.runner import Known, StepFuture
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.step_plan import Idle, StepPlan, StepResult
from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox, receive
from penstock_runtime.engine.model import DeviceLost, describe


class Runner(Protocol):
    """Runs plans in order, perhaps in a thread of its own."""

    depth: int
    """How many plans may be handed over beyond the one that is waited for."""

    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        """Run `plan` after all earlier ones; `inputs` is called in whatever thread that is."""

    def close(self) -> None:
        """Finish what was submitted and give the thread back."""


@dataclass(slots=True)
class _Flight:
    """A plan under way."""

    plan: StepPlan
    result: StepFuture[StepResult]
    waits: "Future[SamplingInputs] | None"
    """For its inputs, which the plan before it must be settled for."""


@dataclass(frozen=True, slots=True)
class LoopPorts:
    """What the loop tells and asks the world."""

    post: Callable[[Stepped], None]
    pulse: HeartbeatWriter
    clock: Callable[[], float]
    """Monotonic, in seconds."""


def serve(
    engine: GenerationEngine, runner: Runner, inbox: Inbox[ToGeneration], outside: LoopPorts
) -> None:
    """Serve until the inbox is closed, then end what is still held.

    Raises:
        DeviceLost: nothing will run any more.
    """
    loop = Loop(engine, runner, outside)
    try:
        until: float | None = None
        while (messages := receive(inbox, until, outside.pulse, outside.clock)) is not None:
            now = outside.clock()
            for message in messages:
                engine.take(message, now)
            until = loop.turn()
        loop.finish()
    finally:
        loop.abandon()
        runner.close()


class Loop:
    """One turn after the other; `serve` turns it as long as the inbox is open."""

    def __init__(self, engine: GenerationEngine, runner: Runner, outside: LoopPorts) -> None:
        self._engine = engine
        self._runner = runner
        self._post = outside.post
        self._pulse = outside.pulse
        self._clock = outside.clock
        self.flights: deque[_Flight] = deque()
        """Plans handed over and not settled."""
        self._ended: float | None = None
        """When the device ended the last step; None: nothing was to be done since."""

    def turn(self) -> float | None:
        """Plan and hand over one step, settle the oldest that must be; return until when to wait."""
        planned = self._engine.plan(self._clock())
        if isinstance(planned, StepPlan):
            self._launch(planned)
        settles = len(self.flights) > (self._runner.depth if isinstance(planned, StepPlan) else 0)
        if settles:
            self._settle()
        self._tell()
        if isinstance(planned, Idle) and not settles:  # what was settled may let others in
            self._ended = None
            return planned.until
        return self._clock()

    def finish(self) -> None:
        """Settle what is under way, then end what is still held."""
        while self.flights:
            self._settle()
        self._engine.fail_all("the engine was closed", retry_after_seconds=1.0)
        self._tell()

    def abandon(self) -> None:
        """Let go of a runner that waits for inputs that will not come."""
        for flight in self.flights:
            if flight.waits is not None:
                flight.waits.cancel()

    def _launch(self, plan: StepPlan) -> None:
        if not self.flights:
            self._pulse.begin(self._engine.predicted_seconds(plan))
        waits: Future[SamplingInputs] | None = None
        inputs: Callable[[], SamplingInputs]
        if self.flights and self._engine.needs_settled(plan):
            waits = Future()
            inputs = waits.result
        elif not self._runner.depth:  # in this thread: made when the forward is under way
            inputs = partial(self._engine.sampling_inputs, plan)
        else:
            inputs = Known(self._engine.sampling_inputs(plan)).result
        result = self._runner.submit(plan, partial(self._engine.with_masks, plan, inputs))
        self.flights.append(_Flight(plan, result, waits))

    def _settle(self) -> None:
        """Wait for the oldest plan, settle it, and give the next one what waited for that."""
        flight = self.flights.popleft()
        try:
            result = flight.result.result()
        except DeviceLost:
            raise
        except Exception as error:  # noqa: BLE001  the engine survives every request
            self._engine.fail_plan(flight.plan, describe(error), self._clock())
        else:
            idle = 0.0 if self._ended is None else max(0.0, result.began - self._ended)
            self._ended = result.began + result.seconds
            self._engine.settle(result, self._clock(), idle)
        if self.flights:
            following = self.flights[0]
            if following.waits is not None and not following.waits.done():
                following.waits.set_result(self._engine.sampling_inputs(following.plan))
            self._pulse.begin(self._engine.predicted_seconds(following.plan))
        else:
            self._pulse.end()

    def _tell(self) -> None:
        stepped = self._engine.settled()
        if stepped is not None:
            self._post(stepped)
