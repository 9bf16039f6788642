"""A torch callable as a `Model`: tensors in and out, inference mode, memory measured on its device."""

from collections.abc import Callable, Mapping, Sequence

import torch

from penstock_runtime.models.base import ModelInfo
from penstock_runtime.models.device import device_errors
from penstock_runtime.models.memory import measured_bound_rows, meter_of
from penstock_runtime.models.sample import find_sample
from penstock_runtime.models.tensors import to_numpy, to_torch
from penstock_runtime.request import Tensor

Call = Callable[[list[torch.Tensor]], object]


class TorchModel:
    """Calls `call` with the inputs in declared order; its result is a tensor, a sequence, or a dict by name."""

    def __init__(self, info: ModelInfo, call: Call, device: torch.device) -> None:
        self.info = info
        self._call = call
        self._device = device

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """As `Model.run`."""
        with device_errors(), torch.inference_mode():
            tensors = [to_torch(inputs[spec.name], self._device) for spec in self.info.inputs]
            return {name: to_numpy(one) for name, one in self._named(self._call(tensors)).items()}

    def memory_bound_rows(self) -> int:
        """As `Model.memory_bound_rows`."""
        sample = find_sample(self)
        outputs = self.run(sample.inputs(1))
        row_bytes = sample.bytes_per_row() + sum(tensor.nbytes for tensor in outputs.values())
        return measured_bound_rows(
            lambda rows: self._run_and_forget(sample.inputs(rows)),
            row_bytes,
            self.info.max_rows,
            meter_of(self._device),
        )

    def _run_and_forget(self, inputs: dict[str, Tensor]) -> None:
        self.run(inputs)

    def _named(self, result: object) -> Mapping[str, torch.Tensor]:
        names = [spec.name for spec in self.info.outputs]
        if isinstance(result, Mapping):
            return {name: result[name] for name in names if name in result}
        tensors = result if isinstance(result, Sequence) else [result]
        return dict(zip(names, tensors, strict=False))
