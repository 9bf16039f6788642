"""Which layers each stage has, and where its ranks are."""

from pathlib import Path

import pytest

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.ranks.layout import FAMILIES
from penstock_runtime.models.decoders.ranks.stages import STAGE_MODULES, stage_layers


@pytest.mark.parametrize(
    ("layers", "sizes"),
    [(8, [4, 4]), (3, [2, 1]), (10, [2, 3, 3, 2]), (11, [3, 3, 3, 2]), (3, [1, 1, 1]), (5, [5])],
)
def test_stages_have_every_layer_once_in_order_and_differ_by_at_most_one(
    layers: int, sizes: list[int]
) -> None:
    stages = [stage_layers(layers, stage, len(sizes)) for stage in range(len(sizes))]
    assert [len(stage) for stage in stages] == sizes
    assert [layer for stage in stages for layer in stage] == list(range(layers))


def test_more_stages_than_layers_are_refused_with_the_numbers() -> None:
    with pytest.raises(
        ModelLoadFailed,
        match=r"^3 stages \(PENSTOCK_PIPELINE_PARALLEL\) are more than the 2 layers .* at most 2$",
    ):
        stage_layers(2, 0, 3)


def test_rank_0_is_in_the_last_stage_and_the_ranks_of_a_stage_are_consecutive() -> None:
    seats = [RankSeat(rank, 2, 3, Path()) for rank in range(6)]
    assert [(seat.stage, seat.part) for seat in seats] == [
        (2, 0),
        (2, 1),
        (1, 0),
        (1, 1),
        (0, 0),
        (0, 1),
    ]


def test_every_family_that_can_be_split_has_stages() -> None:
    assert STAGE_MODULES.keys() == FAMILIES.keys()
