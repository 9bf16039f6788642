"""An engine over a counting step, at depths 0 and 1."""

from contextlib import closing
from typing import Any

import pytest

from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.runner import InlineRunner, StepThread, ThreadRunner
from tests.unit.runtime.engine.continuous.counting_step import INFO, LIMITS, CountingStep
from tests.unit.runtime.engine.continuous.driver import Driver


@pytest.fixture(params=[0, 1], ids=["depth 0", "depth 1"])
def driver(request: pytest.FixtureRequest) -> Any:
    step = CountingStep()
    with closing(StepThread()) as thread:
        runner = ThreadRunner(step, thread) if request.param else InlineRunner(step)
        counting = Driver(step, TokenScheduler(INFO, LIMITS), runner)
        counting.step = step  # type: ignore[attr-defined]
        yield counting
