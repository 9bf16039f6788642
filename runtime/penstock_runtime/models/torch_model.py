"""`TorchModel`: a torch callable as a `Model`, in inference mode, with memory measured on its device.

On CUDA, batches are copied through pinned memory on a separate stream with one synchronization at the end, and small
batches replay CUDA graphs.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from typing_extensions import override

from penstock_runtime.engine.model import Model, ModelInfo
from penstock_runtime.models.device.cuda_graphs import Call, Graphs, Named, recorder_of
from penstock_runtime.models.device.device import raise_as_device_error
from penstock_runtime.models.device.memory import memory_bound_of
from penstock_runtime.models.device.staging import staging_for
from penstock_runtime.request import Tensor


class TorchModel(Model):
    """Runs `call` on the inputs in declared order; the result is a tensor, a sequence, or a dict by name."""

    def __init__(self, info: ModelInfo, call: Call, device: torch.device) -> None:
        self.info = info
        self._call = call
        self.device = device
        self._staging = staging_for(device)
        recorder = recorder_of(device)
        self._run: Named = Graphs(self._named, recorder) if recorder else self._named

    @override
    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        try:
            with torch.inference_mode():
                arrays = [inputs[spec.name] for spec in self.info.inputs]
                return self._staging.run(self._run, arrays)
        except (MemoryError, RuntimeError) as error:
            raise_as_device_error(error)
            raise

    def compile(self) -> None:
        """Enable torch.compile, which runs at the first batches of the warm-up; sizes stay dynamic."""
        self._call = torch.compile(self._call, dynamic=True)

    @override
    def memory_bound_rows(self) -> int:
        return memory_bound_of(self, self.device)

    def _named(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        result = self._call(tensors)
        names = [spec.name for spec in self.info.outputs]
        if isinstance(result, torch.Tensor):
            return {names[0]: result}
        if isinstance(result, Mapping):
            return {name: result[name] for name in names if name in result}
        listed = result if isinstance(result, Sequence) else [result]
        return dict(zip(names, listed, strict=False))


@runtime_checkable
class Wrapping(Protocol):
    """A model that wraps a `TorchModel`."""

    inner: TorchModel
