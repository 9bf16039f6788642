"""`EmulatedAccelerator`: a model that sleeps a + c*b milliseconds for a batch of b rows, then computes with torch.

It simulates eight GPUs on two cores, and its metadata says so: backend `emulated-accelerator`, platform
`penstock_emulated_accelerator`. Because it sleeps, batch times are exact and many pods share a core without slowing
each other.
"""

import os
import time

import torch
from typing_extensions import override

from penstock_runtime.engine.model import Model, ModelInfo, TensorSpec
from penstock_runtime.models.torch_model import TorchModel
from penstock_runtime.request import Tensor


def answer_module(features: int) -> torch.nn.Module:
    """Return a module with a known result: `OUTPUT = 2 * INPUT + 1`, exact for small integers."""
    linear = torch.nn.Linear(features, features)
    with torch.no_grad():
        linear.weight.copy_(2.0 * torch.eye(features))
        linear.bias.fill_(1.0)
    return linear.eval()


class EmulatedAccelerator(Model):
    """A model with a configured service curve and a declared memory bound."""

    def __init__(
        self, fixed_seconds: float, row_seconds: float, features: int, max_rows: int
    ) -> None:
        self.info = ModelInfo(
            name="emulated-accelerator",
            platform="penstock_emulated_accelerator",
            backend="emulated-accelerator",
            inputs=(TensorSpec("INPUT", "FP32", (-1, features)),),
            outputs=(TensorSpec("OUTPUT", "FP32", (-1, features)),),
            max_rows=max_rows,
        )
        self._fixed_seconds = fixed_seconds
        self._row_seconds = row_seconds
        module = answer_module(features)
        self._model = TorchModel(self.info, lambda tensors: module(*tensors), torch.device("cpu"))

    @override
    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        rows = inputs["INPUT"].shape[0]
        time.sleep(self._fixed_seconds + self._row_seconds * rows)
        return self._model.run(inputs)

    @override
    def memory_bound_rows(self) -> int:
        return self.info.max_rows  # there is no device memory to measure


def create(
    a_milliseconds: str = "40",
    c_milliseconds: str = "5",
    features: str = "8",
    max_rows: str = "256",
    load_seconds: str = "0",
) -> Model:
    """Return an emulated accelerator; each argument is a number as a string, as in the pool's spec.

    A time `$NAME` is that of the environment variable NAME, in which the variants of a pool can differ.

    Raises:
        ValueError: an argument is not a number or is out of range.
    """
    time.sleep(_number("load_seconds", load_seconds))
    return EmulatedAccelerator(
        fixed_seconds=_number("a_milliseconds", a_milliseconds) / 1000,
        row_seconds=_number("c_milliseconds", c_milliseconds) / 1000,
        features=_count("features", features),
        max_rows=_count("max_rows", max_rows),
    )


def _number(name: str, text: str) -> float:
    try:
        value = float(os.environ.get(text[1:], "") if text.startswith("$") else text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise ValueError(f"argument {name} must be a number from 0 to 999999, got '{text}'")
    return value


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65536):
        raise ValueError(f"argument {name} must be an integer from 1 to 65536, got '{text}'")
    return int(text)
