"""The runtime on an emulated device: a step takes at least a + c*rows milliseconds, as `PACE=a,c` says.

The tokens are those of the model. Because a pod sleeps for most of a step, several share a core without slowing each other.
"""

import os
import runpy
import time
from collections.abc import Callable
from pathlib import Path

from penstock_api import stopping
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan, StepResult

PROGRAM = "tests.support.batches.paced_pod"


class PacedStep:
    """A step executor that sleeps until the time of its emulated device is over."""

    def __init__(self, step: StepExecutor, fixed_seconds: float, row_seconds: float) -> None:
        self._step = step
        self._fixed_seconds = fixed_seconds
        self._row_seconds = row_seconds
        self.info = step.info

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        """Run the step, and sleep for what is left of its time."""
        end = time.monotonic() + self._fixed_seconds + self._row_seconds * len(plan.rows)
        result = self._step.run(plan, inputs)
        time.sleep(max(0.0, end - time.monotonic()))
        return result


def main() -> None:
    """Run the runtime with its engine in a thread of this process."""
    from penstock_runtime.models.decoders import open as decoders

    fixed, row = (float(part) / 1000 for part in os.environ["PACE"].split(","))
    open_step = decoders.open_step

    def paced(folder: Path, options: StepOptions, name: str) -> StepExecutor:
        return PacedStep(open_step(folder, options, name), fixed, row)

    decoders.open_step = paced  # type: ignore[assignment]  # a pod passes these arguments alone
    runpy.run_module("penstock_runtime", run_name="__main__")


if __name__ == "__main__":
    stopping.remember()
    main()
