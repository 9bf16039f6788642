"""Small exported programs, written where the tests say, and factories that the loader imports by name."""

from pathlib import Path
from typing import Any

import torch

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.request import Tensor


class Affine(torch.nn.Module):
    """y = 2x + 1, exact."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x + 1


class TwoNamed(torch.nn.Module):
    """Two inputs, one by keyword; two outputs by name."""

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"scaled": x * scale, "total": x.sum(1)}


class Pair(torch.nn.Module):
    """A tuple of outputs of other dtypes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.double(), x > 0


class Flat(torch.nn.Module):
    """No rows in the output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class Half(torch.nn.Module):
    """A dtype that numpy does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.bfloat16()


def batch(maximum: int | None = None) -> Any:
    return torch.export.Dim("batch", max=maximum)


def export(
    file: Path,
    module: torch.nn.Module,
    *inputs: torch.Tensor,
    dynamic: Any = None,
    **keywords: torch.Tensor,
) -> Path:
    """Write `module` as a `.pt2`; return `file`."""
    program = torch.export.export(module, inputs, keywords, dynamic_shapes=dynamic)
    torch.export.save(program, file)
    return file


class Declared(torch.nn.Module):
    """A plain module that says what it takes and returns."""

    penstock_inputs = (("INPUT", "FP32", (-1, 4)),)
    penstock_outputs = (("OUTPUT", "FP32", (-1, 4)),)

    def __init__(self, factor: float = 3.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Fitting(Declared):
    """Real torch running out of memory above `rows` rows."""

    def __init__(self, rows: int, from_run: int = 0) -> None:
        super().__init__()
        self.rows, self.from_run, self.runs = rows, from_run, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        if x.shape[0] > self.rows and self.runs > self.from_run:
            raise torch.OutOfMemoryError(f"tried to allocate for {x.shape[0]} rows")
        return super().forward(x)


class Shrinking(Declared):
    """Real torch running out of memory above 3 rows of a real request; warm-up has zeros."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 3 and bool(x.any()):
            raise torch.OutOfMemoryError(f"tried to allocate for {x.shape[0]} rows")
        return super().forward(x)


class OwnModel:
    """A factory may return a `Model` itself."""

    def __init__(self) -> None:
        self.info = ModelInfo(
            name="own",
            platform="own",
            backend="own",
            inputs=(TensorSpec("x", "FP32", (-1, 1)),),
            outputs=(TensorSpec("y", "FP32", (-1, 1)),),
            max_rows=7,
        )

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": inputs["x"]}

    def memory_bound_rows(self) -> int:
        return 5


def declared(factor: str = "3") -> torch.nn.Module:
    return Declared(float(factor))


def fitting(rows: str, from_run: str = "0") -> torch.nn.Module:
    return Fitting(int(rows), int(from_run))


def shrinking() -> torch.nn.Module:
    return Shrinking()


def own() -> OwnModel:
    return OwnModel()


def undeclared() -> torch.nn.Module:
    return Affine()


def misdeclared() -> torch.nn.Module:
    module = Declared()
    module.penstock_inputs = (("INPUT", "BYTES", (-1, 4)),)
    return module


def rowless() -> torch.nn.Module:
    module = Declared()
    module.penstock_outputs = (("OUTPUT", "FP32", (4,)),)  # type: ignore[assignment]
    return module


def garbled() -> torch.nn.Module:
    module = Declared()
    module.penstock_inputs = ("INPUT",)  # type: ignore[assignment]
    return module


def raising() -> torch.nn.Module:
    raise RuntimeError("weights are missing\nsecond line")


def exiting() -> torch.nn.Module:
    raise SystemExit(3)


def nothing() -> None:
    """Return what is no model."""


not_callable = 3
