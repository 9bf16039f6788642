"""`RankGroup`: the collectives of the ranks of one model, by torch.distributed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from penstock_runtime.engine.model import DeviceLost, ModelLoadFailed, describe
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.engine.rendezvous import (
    WAIT_SECONDS,
    StoreAddress,
    await_store_address,
    write_store_address,
)
from penstock_runtime.models.decoders.packing import Table

T = TypeVar("T")
_stores: Any = dist
"""torch.distributed, which exports its stores without types."""

FIRST_WORDS: Final = 4096
"""Words of an order in its first broadcast, whose size all ranks know."""
_TIMEOUT: Final = timedelta(days=365)
"""The HTTP process watches the ranks; an idle follower waits for its next order."""
_LOOPBACK: Final = "lo"
_HERE: Final = "127.0.0.1"
"""Where ranks of its own pod reach rank 0; its store listens on all interfaces."""


class RankGroup:
    """One rank's end of the group. All ranks call the same methods in the same order, in one thread each."""

    def __init__(self, seat: RankSeat, device: torch.device) -> None:
        """Meet the other ranks.

        Raises:
            ModelLoadFailed: they cannot be reached.
        """
        self.seat = seat
        backends = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(
                backends,
                store=_store(seat),
                rank=seat.rank,
                world_size=seat.ranks,
                timeout=_TIMEOUT,
            )
        except RuntimeError as error:
            raise ModelLoadFailed(
                f"rank {seat.rank} of {seat.ranks} cannot reach the others: {describe(error)}"
            ) from error
        self._words = torch.zeros(FIRST_WORDS, dtype=torch.int32)
        self._stage = _stage_group(seat)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the sum of the tensors of this stage's ranks; `tensor` is overwritten."""
        tensor = tensor.contiguous()
        with _other_ranks():
            dist.all_reduce(tensor, group=self._stage)
        return tensor

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensors of this stage's ranks on its first rank, concatenated along the last axis; `tensor` elsewhere."""
        tensor = tensor.contiguous()
        first = self.seat.rank - self.seat.part
        if self.seat.part:
            with _other_ranks():
                dist.gather(tensor, None, first, group=self._stage)
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.seat.tensor)]
        with _other_ranks():
            dist.gather(tensor, parts, first, group=self._stage)
        return torch.cat(parts, -1)

    def send_hidden(self, hidden: torch.Tensor) -> None:
        """Send the output of this stage to the same part of the next one."""
        with _other_ranks():
            dist.send(hidden.contiguous(), self.seat.rank - self.seat.tensor)

    def receive_hidden(self, like: torch.Tensor) -> torch.Tensor:
        """Return the output of the stage before, which has the shape and type of `like`."""
        hidden = torch.empty_like(like, memory_format=torch.contiguous_format)
        with _other_ranks():
            dist.recv(hidden, self.seat.rank + self.seat.tensor)
        return hidden

    def smallest(self, number: int) -> int:
        """Return the smallest of all ranks' numbers."""
        value = torch.tensor([number])
        with _other_ranks():
            dist.all_reduce(value, dist.ReduceOp.MIN)
        return int(value.item())

    def from_first(self, decide: Callable[[], T]) -> T:
        """Return what `decide` returns on rank 0, the only rank that calls it; the value is picklable."""
        values: list[Any] = [decide() if self.seat.rank == 0 else None]
        with _other_ranks():
            dist.broadcast_object_list(values, 0)
        value: T = values[0]
        return value

    def send_words(self, words: Table) -> None:
        """Broadcast an order from rank 0 to the others, which receive it by `receive_words`."""
        first = self._words
        count = min(len(words), FIRST_WORDS)
        first[:count] = torch.from_numpy(words[:count])
        with _other_ranks():
            dist.broadcast(first, 0)
            if len(words) > FIRST_WORDS:
                dist.broadcast(torch.from_numpy(words[FIRST_WORDS:]), 0)

    def receive_words(self) -> Table:
        """Wait for the next order; words may follow it."""
        with _other_ranks():
            dist.broadcast(self._words, 0)
            words = self._words.numpy()
            rest = int(words[0]) - FIRST_WORDS
            if rest <= 0:
                return words.copy()
            more = torch.empty(rest, dtype=torch.int32)
            dist.broadcast(more, 0)
        return np.concatenate([words, more.numpy()])

    def leave(self) -> None:
        """Close the connections: the next collective of every other rank raises DeviceLost."""
        dist.destroy_process_group()


def _store(seat: RankSeat) -> Any:
    """Return the store in which the ranks find each other: a file of the pod, or over TCP at rank 0 of several pods."""
    if seat.pods == 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
        file = _stores.FileStore(str(seat.folder / "rendezvous"), seat.ranks)
        file.set_timeout(_TIMEOUT)
        return file
    wait = timedelta(seconds=WAIT_SECONDS)
    if seat.rank == 0:
        store = _stores.TCPStore(
            _HERE, 0, seat.ranks, is_master=True, timeout=wait, wait_for_workers=False
        )
        write_store_address(seat.folder, StoreAddress(_HERE, store.port))
        return store
    host, port = await_store_address(seat.folder)
    return _stores.TCPStore(host, port, seat.ranks, timeout=wait, wait_for_workers=False)


def _stage_group(seat: RankSeat) -> dist.ProcessGroup | None:
    """Return the group of a rank's stage; None: all ranks. All ranks create the groups of all stages."""
    if seat.stages == 1:
        return None
    groups = [
        dist.new_group(list(range(first, first + seat.tensor)), timeout=_TIMEOUT)
        for first in range(0, seat.ranks, seat.tensor)
    ]
    group: dist.ProcessGroup = groups[seat.rank // seat.tensor]
    return group


@contextmanager
def _other_ranks() -> Iterator[None]:
    """Convert an error of a collective: the other ranks may be in another one, so no step can follow."""
    try:
        yield
    except RuntimeError as error:
        raise DeviceLost(f"the other ranks are lost: {describe(error)}") from error
