"""Small models as programs, modules and files, and a loader with a cache of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock_api.types.model import ModelBackend, ModelSpec
from penstock_runtime.engine.model import Model
from penstock_runtime.models.load import ModelOptions, load
from penstock_runtime.request import Tensor
from tests.unit.runtime.models.programs import batch, export

HERE = "tests.unit.runtime.models.backends.conftest"


class Network(torch.nn.Module):
    """A network with two outputs of different types."""

    penstock_inputs = (("x", "FP32", (-1, 6)),)
    penstock_outputs = (("scores", "FP32", (-1, 3)), ("positive", "BOOL", (-1, 3)))

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.layers(x)
        return {"scores": scores, "positive": scores > 0}


class Branching(Network):
    """A forward that depends on the values, which no exporter follows."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return super().forward(x if float(x.sum()) >= 0 else -x)


def network() -> torch.nn.Module:
    return Network()


def branching() -> torch.nn.Module:
    return Branching()


Load = Callable[..., Model]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A `.pt2` of `Network`."""
    torch.manual_seed(0)
    return export(
        tmp_path / "model.pt2", Network().eval(), torch.ones(3, 6), dynamic={"x": {0: batch(64)}}
    )


@pytest.fixture
def load_on(tmp_path: Path) -> Load:
    """Return a file on a backend, with a cache of the test's own."""

    def on(file: Path | str, backend: ModelBackend | None, **more: Any) -> Model:
        return load(spec_of(file, backend), "served", tmp_path, options(tmp_path))

    return on


def options(folder: Path) -> ModelOptions:
    return ModelOptions(threads=1, private_folder=folder / "compiled")


def spec_of(file: Path | str, backend: ModelBackend | None) -> ModelSpec:
    source: dict[str, Any]
    if isinstance(file, str):
        source = {"type": "Module", "module": {"factory": f"{HERE}:{file}", "arguments": {}}}
    else:
        claim = {"claimName": "models", "path": file.name}
        source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return ModelSpec.model_validate({"source": source, "backend": backend})


def rows(number: int, seed: int = 3) -> dict[str, Tensor]:
    return {"x": np.random.default_rng(seed).standard_normal((number, 6)).astype(np.float32)}


def assert_close(got: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), atol=tolerance)


def expected(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what the untouched network says."""
    with torch.inference_mode():
        outputs = Network().eval()(torch.from_numpy(inputs["x"].copy()))
    return {name: tensor.numpy() for name, tensor in outputs.items()}
