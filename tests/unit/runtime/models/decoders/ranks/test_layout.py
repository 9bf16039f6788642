"""Which part of which weight each rank has."""

import pytest
from transformers import GPTNeoXConfig

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.ranks.layout import (
    FAMILIES,
    Role,
    check_divides,
    family_of,
    rule_of,
    shard_ranges,
    split_sizes,
)
from tests.unit.runtime.models.decoders.tiny_models import KNOWN, config_of


@pytest.mark.parametrize(
    ("size", "parts", "ranks"), [(12, 1, 4), (24, 3, 2), (8, 1, 1), (48, 3, 4)]
)
def test_ranks_read_every_index_once(size: int, parts: int, ranks: int) -> None:
    read = [
        index
        for rank in range(ranks)
        for part in shard_ranges(size, parts, rank, ranks)
        for index in part
    ]
    assert sorted(read) == list(range(size))


def test_each_rank_reads_some_of_each_concatenated_part() -> None:
    assert shard_ranges(12, 3, 1, 2) == [range(2, 4), range(6, 8), range(10, 12)]


def test_modules_without_a_rule_are_whole() -> None:
    family = FAMILIES["llama"]
    assert rule_of(family, "model.layers.0.input_layernorm") is None
    rule = rule_of(family, "model.layers.0.self_attn.o_proj")
    assert rule is not None
    assert rule.role is Role.INPUTS
    assert rule_of(FAMILIES["gpt2"], "transformer.wpe") is None


@pytest.mark.parametrize("family", KNOWN)
def test_every_family_whose_parts_can_be_extracted_can_be_split(family: str) -> None:
    assert family_of(config_of(family), 2)


def test_ranks_that_do_not_divide_are_refused_with_the_number_and_the_possible_ones() -> None:
    with pytest.raises(
        ModelLoadFailed, match=r"4 ranks .* the 2 key-value heads of this model: use 1, 2$"
    ):
        family_of(config_of("llama"), 4)
    with pytest.raises(ModelLoadFailed, match="the 50257 ids of the vocabulary"):
        check_divides({**split_sizes(config_of("gpt2")), "ids of the vocabulary": 50257}, 2)


def test_other_families_are_refused_by_name() -> None:
    with pytest.raises(ModelLoadFailed, match="model type 'gpt_neox' cannot be split over ranks"):
        family_of(GPTNeoXConfig(), 2)
