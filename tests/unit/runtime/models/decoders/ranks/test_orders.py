"""What a follower receives is what rank 0 packed."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from penstock_runtime.engine.continuous.steps.step_plan import BlockCopy, StepPlan
from penstock_runtime.engine.model import DeviceLost
from penstock_runtime.models.decoders.packing import PackedBatch, Table, positions_of
from penstock_runtime.models.decoders.ranks.leader import Follower, Leader
from penstock_runtime.models.decoders.ranks.orders import StepOrder, decode, encode

PACKED = positions_of(
    np.array([7, 8, 9, 5]),
    np.array([[4, 1], [2, 0]], np.int32),
    np.array([0, 9]),
    np.array([0, 3, 4]),
    8,
)
MOVES: dict[str, Any] = {
    "swap_out": [BlockCopy(3, 0)],
    "swap_in": [BlockCopy(1, 4), BlockCopy(2, 5)],
    "copies": [],
}


def same(left: PackedBatch, right: PackedBatch) -> bool:
    return all(
        np.array_equal(getattr(left, field.name), getattr(right, field.name))
        and np.asarray(getattr(left, field.name)).dtype
        == np.asarray(getattr(right, field.name)).dtype
        for field in fields(PackedBatch)
    )


@pytest.mark.parametrize("moves", [{}, MOVES], ids=["no moves", "moves"])
def test_rows_and_moves_are_decoded_as_they_were_encoded(moves: dict[str, Any]) -> None:
    order = StepOrder(PACKED, **moves)
    words = encode(order)
    assert words[0] == len(words)
    decoded = decode(np.concatenate([words, np.full(9, -1, np.int32)]))
    assert decoded.packed is not None
    assert same(decoded.packed, PACKED)
    assert decoded.moves() == order.moves()


def test_a_plan_that_only_moves_blocks_has_no_rows() -> None:
    decoded = decode(encode(StepOrder(None, **MOVES)))
    assert decoded.packed is None
    assert decoded.moves() == StepOrder(None, **MOVES).moves()


class Recorded:
    """A decoder, a store and a channel that keep what they get."""

    captures = 0

    def __init__(self, orders: list[Table] | None = None, failure: Exception | None = None) -> None:
        self.layers: list[Any] = []
        self.calls: list[Any] = []
        self.orders = orders if orders is not None else []
        self._failure = failure

    def forward(self, packed: PackedBatch) -> Any:
        self.calls.append(packed.ids.tolist())
        if self._failure is not None:
            raise self._failure
        return np.zeros((1, 1), np.float32)

    def move(self, plan: StepPlan) -> None:
        if self._failure is not None:
            raise self._failure
        if plan.swap_out or plan.swap_in or plan.copies:
            self.calls.append((plan.swap_out, plan.swap_in, plan.copies))

    def copy_block(self) -> None: ...

    def send_words(self, words: Table) -> None:
        self.orders.append(words)

    def receive_words(self) -> Table:
        if not self.orders:
            raise DeviceLost("rank 0 has left")
        return self.orders.pop(0)


def test_followers_move_and_run_what_rank_0_does_in_its_order() -> None:
    leading = Recorded()
    leader = Leader(leading, leading, leading)
    row: Any = object()
    leader.move(StepPlan(1, [row], **MOVES))
    leader.forward(PACKED)
    leader.move(StepPlan(2, [], copies=[BlockCopy(0, 1)]))
    leader.move(StepPlan(3, [row]))
    leader.forward(PACKED)
    assert len(leading.orders) == 3, "the moves of a plan with rows travel with its rows"
    following = Recorded(leading.orders)
    with pytest.raises(DeviceLost, match="rank 0 has left"):
        Follower(following, following, following).follow()
    assert following.calls == leading.calls


def test_a_failed_step_of_rank_0_ends_the_group() -> None:
    failing = Recorded(failure=RuntimeError("out of tiles"))
    with pytest.raises(DeviceLost, match="a step of rank 0 failed: RuntimeError: out of tiles"):
        Leader(failing, failing, failing).forward(PACKED)


def test_a_failed_move_of_rank_0_ends_the_group() -> None:
    failing = Recorded(failure=MemoryError())
    with pytest.raises(DeviceLost, match="a move of rank 0 failed: MemoryError"):
        Leader(failing, failing, failing).move(StepPlan(1, [], **MOVES))
