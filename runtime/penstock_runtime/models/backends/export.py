"""`exported`: the `torch.export` program of a module over the declared tensors, for backends that compile it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from penstock_runtime.engine.model import ModelInfo, describe
from penstock_runtime.models.backends.base import BackendFailed
from penstock_runtime.models.device.tensors import to_torch
from penstock_runtime.request import Tensor


class _InOrder(torch.nn.Module):
    """`call` over tensors in declared order, which returns tensors in declared order."""

    def __init__(self, parts: torch.nn.Module, call: Callable[..., Any], names: list[str]) -> None:
        super().__init__()
        self.parts = parts
        self._call, self._names = call, names

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        result = self._call(list(tensors))
        if isinstance(result, torch.Tensor):
            return [result]
        if isinstance(result, Mapping):
            return [result[name] for name in self._names]
        return list(result) if isinstance(result, Sequence) else [result]


def exported(
    module: torch.nn.Module,
    call: Callable[[list[torch.Tensor]], Any],
    info: ModelInfo,
    sample: dict[str, Tensor],
) -> ExportedProgram:
    """Return the program of `call`, which runs `module`.

    Args:
        module: owner of the weights.
        call: takes the inputs in declared order; returns a tensor, a sequence, or a dict by name.
        info: the declared tensors; -1 are dynamic dimensions, and ragged ones are one dimension.
        sample: a batch that `call` accepts, of two rows or more.

    Raises:
        BackendFailed: the module cannot be exported, or not with these dynamic dimensions.
    """
    arguments = tuple(to_torch(sample[spec.name]) for spec in info.inputs)
    names = [spec.name for spec in info.outputs]
    try:
        with torch.no_grad():
            return torch.export.export(
                _InOrder(module, call, names), arguments, dynamic_shapes=(_dimensions(info),)
            )
    except Exception as error:  # tracing runs the model's own code
        raise BackendFailed(
            f"torch.export does not support the model: {describe(error)}"
        ) from error


def _dimensions(info: ModelInfo) -> tuple[dict[int, Any], ...]:
    rows = Dim("rows", max=info.max_rows) if info.max_rows > 1 else None
    bounds = [spec.bounds[1] for spec in info.inputs if spec.ragged and len(spec.bounds) > 1]
    length = Dim("length", max=bounds[0][1]) if bounds else Dim("length")
    dimensions = []
    for number, spec in enumerate(info.inputs):
        free = {
            axis: length if spec.ragged and axis == 1 else Dim(f"size_{number}_{axis}")
            for axis, size in enumerate(spec.shape)
            if axis and size == -1
        }
        dimensions.append({0: rows, **free})
    return tuple(dimensions)
