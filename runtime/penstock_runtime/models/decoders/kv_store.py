"""`KvStore`: the tensors of the KV blocks, addressed by number; the block manager assigns them to sequences."""

from collections.abc import Callable, Iterable
from typing import Protocol

import torch
from typing_extensions import override

from penstock_runtime.engine.continuous.steps.step_plan import BlockCopy, StepPlan


class BlockStore(Protocol):
    """Moves blocks, by number."""

    layers: list[torch.Tensor]
    """One cache tensor per layer on the device."""

    def move(self, plan: StepPlan) -> None:
        """Swap out, swap in and copy blocks, in this order."""

    def copy_block(self) -> None:
        """Copy a block to the host, or within the device if the host has no blocks; for timing."""


class KvStore(BlockStore):
    """One cache tensor per layer on the device, and one per layer on the host for swapped blocks."""

    def __init__(
        self,
        layers: int,
        blocks: int,
        host_blocks: int,
        allocate: Callable[[int], torch.Tensor],
    ) -> None:
        self._blocks = blocks
        self._host_blocks = host_blocks
        self.layers = [allocate(blocks) for _ in range(layers)]
        self._host = [
            torch.empty(
                (2 * host_blocks, *layer.shape[1:]), dtype=layer.dtype, pin_memory=layer.is_cuda
            )
            for layer in self.layers
        ]

    @property
    def block_bytes(self) -> int:
        """Return the bytes of one block in all layers, keys and values."""
        return sum(layer.nbytes for layer in self.layers) // self._blocks

    @override
    def copy_block(self) -> None:
        for device, host in zip(self.layers, self._host, strict=True):
            target = host if len(host) else device
            target[0].copy_(device[1])
            target[-1].copy_(device[-1])

    @override
    def move(self, plan: StepPlan) -> None:
        if not (plan.swap_out or plan.swap_in or plan.copies):
            return
        for device, host in zip(self.layers, self._host, strict=True):
            _copy(device, self._blocks, host, self._host_blocks, plan.swap_out)
            _copy(host, self._host_blocks, device, self._blocks, plan.swap_in)
            _copy(device, self._blocks, device, self._blocks, plan.copies)


def _copy(
    source: torch.Tensor,
    source_blocks: int,
    target: torch.Tensor,
    target_blocks: int,
    copies: Iterable[BlockCopy],
) -> None:
    for copy in copies:
        target[copy.target].copy_(source[copy.source])
        target[target_blocks + copy.target].copy_(source[source_blocks + copy.source])
