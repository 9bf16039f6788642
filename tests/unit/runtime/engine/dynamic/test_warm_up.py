"""What a pod does before its first request: it is bounded in time, and teaches at least one size."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock_runtime.engine.dynamic.warm_up import LENGTHS_SECONDS, warm_up
from penstock_runtime.engine.model import ModelInfo, OutOfMemory, TensorSpec
from penstock_runtime.request import Tensor
from tests.unit.runtime.engine.dynamic.builders import Doubling

BUCKETS = (4, 8, 12)


@dataclass
class SlowToMeasure(Doubling):
    """As a model that is compiled again while its memory is measured."""

    measuring_seconds: float = 30.0

    def memory_bound_rows(self) -> int:
        self.clock.advance(self.measuring_seconds)
        return super().memory_bound_rows()


def test_what_measuring_memory_takes_is_not_taken_from_the_curve() -> None:
    model = SlowToMeasure(fixed_seconds=0.01, row_seconds=0.0001)
    assert warm_up(model, model.clock).curve.sums().batches == 13  # 1, 2, 4 ... 4096 rows


@pytest.mark.parametrize("row_seconds", [1.5, 60.0])
def test_a_model_however_slow_is_warmed_with_one_row(row_seconds: float) -> None:
    model = SlowToMeasure(row_seconds=row_seconds)
    warmed = warm_up(model, model.clock)
    assert warmed.curve.sums().batches == 1
    assert warmed.curve.service_time().seconds(1) == pytest.approx(row_seconds)
    assert warmed.bound_rows == 4096


TEXTS = ModelInfo(
    name="texts",
    platform="test",
    backend="test",
    inputs=tuple(
        TensorSpec(tensor, "INT64", (-1, -1), ((1, 4096), (1, BUCKETS[-1])), ragged=True)
        for tensor in ("ids", "mask")
    ),
    outputs=(TensorSpec("y", "FP32", (-1, 1)),),
    max_rows=4,
    length_buckets=BUCKETS,
)


@dataclass
class Texts(Doubling):
    """Takes texts of up to the last bucket; notes each shape, which takes `fixed_seconds`."""

    max_cells: int = 10**9

    def __post_init__(self) -> None:
        self.info = TEXTS
        self.shapes = list[tuple[int, ...]]()

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        ids, mask = inputs["ids"], inputs["mask"]
        if not mask.all():
            raise ValueError("a row is empty")
        if ids.size > self.max_cells:
            raise OutOfMemory("too many tokens")
        self.shapes.append(ids.shape)
        self.clock.advance(self.fixed_seconds)
        return {"y": ids[:, :1].astype(np.float32)}


def test_every_length_is_warmed_with_few_rows_before_more() -> None:
    model = Texts()
    warm_up(model, model.clock)
    seen = list(dict.fromkeys(model.shapes[1:]))  # the first was looked for
    assert seen == [(rows, length) for rows in (1, 2, 4) for length in BUCKETS]


def test_lengths_that_take_long_are_left_to_their_first_request() -> None:
    model = Texts(fixed_seconds=1.5)
    warm_up(model, model.clock)
    assert (1, 4) in model.shapes
    assert (4, 12) not in model.shapes
    assert model.clock.now <= 1.5 + LENGTHS_SECONDS + 1.5


def test_rows_that_fit_only_while_texts_are_short_do_not_count_as_fitting() -> None:
    model = Texts(max_cells=2 * 8)
    assert warm_up(model, model.clock).bound_rows == 1


def test_without_buckets_one_length_stands_for_all() -> None:
    model = Texts()
    model.info = replace(TEXTS, length_buckets=())
    warm_up(model, model.clock)
    assert {length for _, length in model.shapes} == {12}
