"""Models whose batches tests can hold open, spoil, or kill the engine with. Real time, no fakes."""

import threading

import numpy as np

from penstock_runtime.models.base import Model, ModelInfo, ModelLoadFailed
from penstock_runtime.request import Tensor
from tests.unit.engine.builders import info

LETHAL = 666.0
"""A value that makes the model raise what no engine can survive."""
BAD = 13.0
"""A value that makes the model raise an error of its own."""


class Gate:
    """A door through which every batch of `Gated` must pass."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        """One release a batch that has reached the door."""
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def passes(self) -> None:
        self.entered.release()
        assert self._open.wait(10), "the test never opened the gate"


class Gated:
    """y = 2x behind a gate; values BAD and LETHAL raise. Real requests only: warm-up has zeros."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.info: ModelInfo = info()
        self.batches: list[int] = []
        self._gate = gate

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        x = inputs["x"]
        if not x.any():
            return {"y": x}
        self.batches.append(x.shape[0])
        if self._gate is not None:
            self._gate.passes()
        if (x == LETHAL).any():
            raise SystemExit("the model took the engine down")
        if (x == BAD).any():
            raise RuntimeError("a bad row")
        return {"y": np.multiply(x, 2, dtype=np.float32)}

    def memory_bound_rows(self) -> int:
        return 64


def failing() -> Model:
    raise ModelLoadFailed("there is no file '/models/gone.pt2': put it there")


def crashing() -> Model:
    raise KeyError("weights\nand more lines")


def exiting() -> Model:
    raise SystemExit(3)
