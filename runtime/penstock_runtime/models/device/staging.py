"""How a batch reaches its device and comes back.

On CUDA (CUDA C++ Best Practices, "Asynchronous and Overlapping Transfers"): inputs are copied into pinned
memory that is kept, every transfer and kernel is queued on one stream of the model's own, and the host waits
once, at the end.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
import torch

from penstock_runtime.models.device.cuda_graphs import Named
from penstock_runtime.models.device.tensors import to_numpy, to_torch
from penstock_runtime.request import Tensor


class Staging(Protocol):
    """Runs a call of tensors on arrays."""

    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the call's outputs; the arrays stay as they are."""


class HostStaging:
    """No device: arrays and tensors share their memory."""

    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        """As `Staging`."""
        tensors = [to_torch(array) for array in arrays]
        return {name: to_numpy(one) for name, one in call(tensors).items()}


class Buffers:
    """Host memory that is kept from batch to batch, one buffer a use, as large as the largest so far."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._held: dict[str, torch.Tensor] = {}

    def like(self, use: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor over the buffer of `use`; what it held before is gone."""
        elements = int(np.prod(shape, dtype=np.int64))
        size = elements * dtype.itemsize
        held = self._held.get(use)
        if held is None or held.numel() < size:
            grown = 1 << max(size - 1, 1).bit_length()
            held = torch.empty(grown, dtype=torch.uint8, pin_memory=self._pinned)
            self._held[use] = held
        return held[:size].view(dtype).view(tuple(shape))


class DeviceStaging:
    """One stream, pinned buffers, one wait. Any device may be named, so that a CPU can prove the copies."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        on_cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]
        self._buffers = Buffers(pinned=on_cuda)

    def run(self, call: Named, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        """As `Staging`."""
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
            name: self._buffers.like(f"out {name}", one.shape, one.dtype)
            for name, one in outputs.items()
        }
        for name, one in outputs.items():
            hosts[name].copy_(one, non_blocking=True)
        return hosts


def staging_for(device: torch.device) -> Staging:
    """Return how batches reach `device`."""
    return HostStaging() if device.type == "cpu" else DeviceStaging(device)
