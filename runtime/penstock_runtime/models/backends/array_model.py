"""`ArrayModel`: a backend's call as a `Model`."""

import numpy as np
import torch
from typing_extensions import override

from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.model import Model, ModelInfo
from penstock_runtime.models.backends.base import Call
from penstock_runtime.models.device.device import raise_as_device_error
from penstock_runtime.models.device.memory import memory_bound_of
from penstock_runtime.request import Tensor

_CPU = torch.device("cpu")


class ArrayModel(Model):
    """Runs `call` on the inputs in declared order; fewer rows than `min_rows` are padded with the last row."""

    device = _CPU

    def __init__(self, info: ModelInfo, call: Call, min_rows: int = 1) -> None:
        self.info = info
        self.min_rows = min_rows
        self._call = call
        self._inputs = [(spec.name, numpy_dtype(spec.datatype)) for spec in info.inputs]
        self._outputs = [spec.name for spec in info.outputs]

    @override
    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        arrays = [np.ascontiguousarray(inputs[name], dtype=dtype) for name, dtype in self._inputs]
        rows = arrays[0].shape[0]
        if rows < self.min_rows:
            return {name: values[:rows] for name, values in self._padded(arrays, rows).items()}
        return self._results(arrays)

    @override
    def memory_bound_rows(self) -> int:
        return memory_bound_of(self, self.device)

    def _padded(self, arrays: list[Tensor], rows: int) -> dict[str, Tensor]:
        missing = self.min_rows - rows
        return self._results(
            [np.concatenate([array, np.repeat(array[-1:], missing, 0)]) for array in arrays]
        )

    def _results(self, arrays: list[Tensor]) -> dict[str, Tensor]:
        try:
            return dict(zip(self._outputs, self._call(arrays), strict=True))
        except (MemoryError, RuntimeError) as error:
            raise_as_device_error(error)
            raise
