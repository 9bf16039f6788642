"""Where steps run: in the engine's own thread, or in one beside it so that planning hides behind the device."""

from collections.abc import Callable
from functools import partial

from penstock_runtime.engine.continuous.outcomes import Known, Outcome, Raised
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.step_plan import StepPlan, StepResult
from penstock_runtime.engine.continuous.step_thread import StepThread
from penstock_runtime.engine.continuous.stepping import Step


class InlineRunner:
    """Depth 0: `submit` returns when the step is done."""

    depth = 0

    def __init__(self, step: Step) -> None:
        self._step = step

    def submit(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> Outcome[StepResult]:
        """As `loop.Runner.submit`."""
        try:
            return Known(self._step.run(plan, inputs))
        except Exception as error:  # noqa: BLE001  handed to whoever asks for the result
            return Raised(error)

    def close(self) -> None:
        """Nothing is held."""


class ThreadRunner:
    """Depth 1: one thread of its own, in which the step must also have been opened."""

    depth = 1

    def __init__(self, step: Step, thread: StepThread) -> None:
        self._step = step
        self._thread = thread

    def submit(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> Outcome[StepResult]:
        """As `loop.Runner.submit`."""
        return self._thread.submit(partial(self._step.run, plan, inputs))

    def close(self) -> None:
        """As `loop.Runner.close`."""
        self._thread.close()
