"""A step that raises, and the one that was planned before that was known."""

from contextlib import closing

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.messages import Generated
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.runner import StepThread, ThreadRunner
from penstock_runtime.engine.model import describe
from penstock_runtime.models.decoders.kv_store import KvStore
from penstock_runtime.models.decoders.packing import PackedBatch
from penstock_runtime.models.decoders.step import TorchStep
from penstock_runtime.request import Failed
from tests.unit.runtime.engine.continuous.counting_step import INFO, LIMITS
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request


class RaisesOnce:
    """A decoder that finds every token equally likely, once it has raised."""

    captures = 0

    def __init__(self, error: Exception) -> None:
        self._errors = [error]

    def forward(self, packed: PackedBatch) -> NDArray[np.float32]:
        if self._errors:
            raise self._errors.pop()
        return np.zeros((len(packed.last), INFO.vocabulary), np.float32)


@pytest.mark.parametrize("error", [RuntimeError("bad kernel"), IndexError("out of range")])
def test_a_step_that_raises_fails_no_later_request(error: Exception) -> None:
    store = KvStore(1, INFO.kv.blocks, 0, lambda blocks: torch.zeros((2 * blocks, 1)))
    step = TorchStep(INFO, RaisesOnce(error), store)
    with closing(StepThread()) as thread:
        driver = Driver(step, TokenScheduler(INFO, LIMITS), ThreadRunner(step, thread))
        driver.engine.take(generate_request("a", [1, 2]), 0.0)
        driver.turn()
        driver.engine.take(generate_request("b", [3], tokens=4), driver.now)
        driver.run()
    assert driver.ends["a"] == Failed(describe(error))
    assert isinstance(driver.ends["b"], Generated)
    assert driver.tokens["b", 0] == [0, 0, 0, 0]
