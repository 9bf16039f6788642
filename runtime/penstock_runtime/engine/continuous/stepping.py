"""What runs plans. The engine and its loop know a model by this alone."""

from collections.abc import Callable
from typing import Protocol

from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.step_plan import StepPlan, StepResult


class Step(Protocol):
    """Runs plans one after the other, in order of number."""

    info: GenerationInfo

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        """Do all that `plan` says. `inputs` is called once the forward is under way, and may wait.

        Raises:
            OutOfMemory: the step did not fit.
            DeviceLost: nothing will run any more.
        """
