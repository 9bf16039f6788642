"""Models whose batches tests can hold open, spoil, or kill the engine with. Real time, no fakes.

They may live in another process than the test, so what the two share is a folder.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed
from penstock_runtime.request import Tensor
from tests.unit.runtime.engine.dynamic.builders import info

LETHAL = 666.0
"""A value that makes the model raise what no engine can survive."""
BAD = 13.0
"""A value that makes the model raise an error of its own."""
PATIENCE_SECONDS = 60.0


class Gate:
    """Blocks every batch of `Gated` while shut; open at first."""

    def __init__(self, folder: Path) -> None:
        self._shut, self._rows = folder / "shut", folder / "rows"
        self._seen = 0

    # -- the test's side

    def shut(self) -> None:
        self._shut.touch()

    def open(self) -> None:
        self._shut.unlink()

    @property
    def batches(self) -> list[int]:
        """Rows of every batch that has reached the gate."""
        return [int(line) for line in self._rows.read_text().split()] if self._rows.exists() else []

    def entered(self) -> bool:
        """Wait until one more batch than last time has reached the gate."""
        self._seen += 1
        return _soon(lambda: len(self.batches) >= self._seen)

    # -- the model's side

    def passes(self, rows: int) -> None:
        with self._rows.open("a") as file:
            file.write(f"{rows}\n")
        assert _soon(lambda: not self._shut.exists()), "the test never opened the gate"


def _soon(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Gated:
    """y = 2x behind a gate; values BAD and LETHAL raise. Real requests only: warm-up has zeros."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.info: ModelInfo = info()
        self._gate = gate

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        x = inputs["x"]
        if not x.any():
            return {"y": x}
        if self._gate is not None:
            self._gate.passes(x.shape[0])
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


def short_lived() -> Model:
    """Load a model whose process ends soon after."""
    threading.Timer(0.3, os._exit, (7,)).start()
    return Gated()


def slow_to_load() -> Model:
    time.sleep(PATIENCE_SECONDS)
    return Gated()
