"""Blocks move bit for bit, and a plan's arrays are those that a naive reading gives."""

import numpy as np
import torch

from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.sequence import RequestSpec, Sequence, TokenRef
from penstock_runtime.engine.continuous.steps.step_plan import BlockCopy, Row, StepPlan
from penstock_runtime.models.decoders.kv_store import KvStore
from penstock_runtime.models.decoders.packing import Packer


def store(blocks: int = 6, host_blocks: int = 3) -> KvStore:
    kv = KvStore(2, blocks, host_blocks, lambda count: torch.zeros((2 * count, 4, 5)))
    for layer in kv.layers:
        layer.copy_(torch.randn(layer.shape))
    return kv


def block(kv: KvStore, number: int) -> list[torch.Tensor]:
    half = len(kv.layers[0]) // 2
    return [layer[at].clone() for layer in kv.layers for at in (number, half + number)]


def test_a_swapped_block_comes_back_bit_for_bit_into_another_place() -> None:
    kv = store()
    before = block(kv, 4)
    kv.move(StepPlan(1, [], swap_out=[BlockCopy(4, 2)]))
    for layer in kv.layers:
        layer.zero_()
    kv.move(StepPlan(2, [], swap_in=[BlockCopy(2, 1)]))
    assert all(torch.equal(a, b) for a, b in zip(block(kv, 1), before, strict=True))
    assert not any(layer.any() for layer in block(kv, 4))


def test_a_copy_leaves_its_source_alone() -> None:
    kv = store()
    before = block(kv, 0)
    kv.move(StepPlan(1, [], copies=[BlockCopy(0, 5)]))
    for number in (0, 5):
        assert all(torch.equal(a, b) for a, b in zip(block(kv, number), before, strict=True))


def sequence(uid: int, ids: list[int]) -> Sequence:
    spec = RequestSpec(f"r{uid}", len(ids), SamplingParams(max_tokens=9), seed=1, arrived=0.0)
    return Sequence(uid, spec, 0, ids)


def test_rows_are_concatenated_with_the_tables_that_grew() -> None:
    packer = Packer(block_tokens=4, max_rows=3, max_blocks=8)
    first, second = sequence(1, list(range(10, 19))), sequence(2, [5, 6, 7])
    table = [7, 3]
    packer.pack(StepPlan(1, [Row(first, 0, 8, table, samples=False)]), {})
    table.append(1)
    packed = packer.pack(
        StepPlan(
            2,
            [
                Row(first, 8, 1, table, samples=True),
                Row(second, 0, 3, [0], samples=False),
                Row(sequence(3, [4] * 6), 6, 1, [2, 5], samples=True, placeholder=TokenRef(1, 0)),
            ],
        ),
        {2: 99},
    )
    assert packed.ids.tolist() == [18, 5, 6, 7, 99]
    assert packed.positions.tolist() == [8, 0, 1, 2, 6]
    assert packed.slots.tolist() == [1 * 4 + 0, 0, 1, 2, 5 * 4 + 2]
    assert packed.contexts.tolist() == [9, 3, 7]
    assert packed.last.tolist() == [0, 4]
    assert packed.tables[0].tolist() == [7, 3, 1]


def test_a_table_that_was_replaced_is_written_again() -> None:
    packer = Packer(block_tokens=4, max_rows=6, max_blocks=8)
    grown = sequence(1, list(range(9)))
    packer.pack(StepPlan(1, [Row(grown, 0, 8, [7, 3], samples=False)]), {})
    packed = packer.pack(StepPlan(2, [Row(grown, 8, 1, [2, 6, 4], samples=True)]), {})
    assert packed.tables[0].tolist() == [2, 6, 4]
    many = [Row(sequence(uid, [1]), 0, 1, [uid], samples=True) for uid in range(2, 7)]
    assert packer.pack(StepPlan(3, many), {}).tables.dtype == np.int32
