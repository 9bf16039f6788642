"""Transfer of batches to a device and back.

On CUDA (CUDA C++ Best Practices, "Asynchronous and Overlapping Transfers"), inputs are copied to persistent pinned
memory, all transfers and kernels are queued on one stream of the model, and the host synchronizes once at the end.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
import torch
from typing_extensions import override

from penstock_runtime.models.device.cuda_graphs import Named
from penstock_runtime.models.device.tensors import to_numpy, to_torch
from penstock_runtime.request import Tensor


class Staging(Protocol):
    """Runs a call on arrays, which it converts to tensors and back."""

    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the outputs of `call`; the arrays are not modified."""


class HostStaging(Staging):
    """Staging on the CPU: arrays and tensors share their memory."""

    @override
    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        tensors = [to_torch(array) for array in arrays]
        return {name: to_numpy(tensor) for name, tensor in call(tensors).items()}


class Buffers:
    """Host memory reused across batches: one growing buffer per use."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._buffers: dict[str, torch.Tensor] = {}

    def like(self, use: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor over the buffer of `use`, whose previous content is overwritten."""
        elements = int(np.prod(shape, dtype=np.int64))
        size = elements * dtype.itemsize
        buffer = self._buffers.get(use)
        if buffer is None or buffer.numel() < size:
            grown = 1 << max(size - 1, 1).bit_length()
            buffer = torch.empty(grown, dtype=torch.uint8, pin_memory=self._pinned)
            self._buffers[use] = buffer
        return buffer[:size].view(dtype).view(tuple(shape))


class DeviceStaging(Staging):
    """Staging by one stream, pinned buffers and one synchronization; tests also run it on the CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        on_cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]
        self._buffers = Buffers(pinned=on_cuda)

    @override
    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        with self._on_stream():
            tensors = [self._sent(f"in {n}", array) for n, array in enumerate(arrays)]
            hosts = self._fetched(call(tensors))
        if self._stream is not None:
            self._stream.synchronize()
        return {name: to_numpy(host).copy() for name, host in hosts.items()}

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _sent(self, use: str, array: Tensor) -> torch.Tensor:
        source = to_torch(array)
        host = self._buffers.like(use, source.shape, source.dtype)
        host.copy_(source)
        return host.to(self._device, non_blocking=True, copy=True)

    def _fetched(self, outputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        hosts = {
            name: self._buffers.like(f"out {name}", tensor.shape, tensor.dtype)
            for name, tensor in outputs.items()
        }
        for name, tensor in outputs.items():
            hosts[name].copy_(tensor, non_blocking=True)
        return hosts


def staging_for(device: torch.device) -> Staging:
    """Return the staging of `device`."""
    return HostStaging() if device.type == "cpu" else DeviceStaging(device)
