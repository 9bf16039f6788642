"""`Leader` and `Follower`: rank 0 sends each step's order before it runs it; the other ranks run what they receive."""

from typing import Protocol

import torch
from typing_extensions import override

from penstock_runtime.engine.continuous.ranks import StepFollower
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan
from penstock_runtime.engine.model import DeviceLost, describe
from penstock_runtime.models.decoders.kv_store import BlockStore
from penstock_runtime.models.decoders.packing import PackedBatch, Table
from penstock_runtime.models.decoders.ranks.orders import StepOrder, decode, encode
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder, Logits


class OrderChannel(Protocol):
    """Carries orders from rank 0 to the other ranks, as `RankGroup` does."""

    def send_words(self, words: Table) -> None:
        """Send an order to all followers."""

    def receive_words(self) -> Table:
        """Wait for the next order."""


class Leader(Decoder, BlockStore):
    """Decoder and block store of rank 0. Moves are sent with the rows of their plan."""

    captures = 0

    def __init__(self, decoder: Decoder, store: BlockStore, channel: OrderChannel) -> None:
        self._decoder = decoder
        self.layers = store.layers
        self._store = store
        self._channel = channel
        self._moved: StepPlan | None = None
        """Plan whose moves the followers have not received."""

    @override
    def move(self, plan: StepPlan) -> None:
        """Send the moves now or with the rows, then do them.

        Raises:
            DeviceLost: a move failed; the blocks of the ranks differ.
        """
        if plan.rows:
            self._moved = plan
        else:
            self._send(plan, None)
        try:
            self._store.move(plan)
        except Exception as error:
            raise DeviceLost(f"a move of rank 0 failed: {describe(error)}") from error

    @override
    def copy_block(self) -> None:
        self._store.copy_block()

    @override
    def forward(self, packed: PackedBatch) -> Logits:
        """Send the order, then run it.

        Raises:
            DeviceLost: the step failed; the other ranks may be in any collective of it.
        """
        self._send(self._moved, packed)
        self._moved = None
        try:
            return self._decoder.forward(packed)
        except DeviceLost:
            raise
        except Exception as error:
            raise DeviceLost(f"a step of rank 0 failed: {describe(error)}") from error

    def _send(self, plan: StepPlan | None, packed: PackedBatch | None) -> None:
        moves = (plan.swap_out, plan.swap_in, plan.copies) if plan is not None else ()
        self._channel.send_words(encode(StepOrder(packed, *moves)))


class Follower(StepFollower):
    """Runs the orders of rank 0 on this rank's shard."""

    def __init__(self, decoder: Decoder, store: BlockStore, channel: OrderChannel) -> None:
        self._decoder = decoder
        self._store = store
        self._channel = channel

    @override
    @torch.inference_mode()
    def follow(self) -> None:
        while True:
            order = decode(self._channel.receive_words())
            self._store.move(order.moves())
            if order.packed is not None:
                self._decoder.forward(order.packed)
