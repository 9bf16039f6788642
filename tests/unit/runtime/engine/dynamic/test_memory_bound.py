"""The bound that memory sets to a batch: by what was seen to fit, for each shape by itself."""

from dataclasses import dataclass, replace

import pytest

from penstock_runtime.engine.dynamic import memory_bound
from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.messages import Submit
from penstock_runtime.engine.model import OutOfMemory, TensorSpec
from penstock_runtime.request import Completed, Failed, Tensor
from tests.unit.runtime.engine.dynamic.builders import (
    Doubling,
    Ends,
    a_request,
    an_engine,
    info,
    limits,
    step,
    submit,
)


@dataclass
class Greedy(Doubling):
    """Runs out of memory by what a row holds, not by how many there are."""

    too_large: float = 0.0

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if (inputs["x"] == self.too_large).any():
            raise OutOfMemory("too large")
        return super().run(inputs)


def test_the_cap_is_the_limit_or_what_memory_and_program_allow() -> None:
    assert an_engine(Doubling(), limits(cap=64), bound=16).cap == 16
    assert an_engine(Doubling(), limits(cap=4), bound=16).cap == 4
    assert an_engine(Doubling(), limits(cap=64), bound=0).cap == 1


def test_running_out_of_memory_lowers_the_bound_to_what_worked_and_is_counted() -> None:
    model, ends = Doubling(fits=5), Ends()
    engine = an_engine(model, limits(cap=16))
    submit(engine, *(str(n) for n in range(16)))
    step(engine, model)
    settled = ends.take(engine.settled())
    assert settled is not None
    assert settled.batch is not None
    assert settled.batch.out_of_memory_splits == 2
    assert settled.report.batch_cap_bound == 4
    assert all(isinstance(end, Completed) for end in ends.of.values())
    submit(engine, *(f"again-{n}" for n in range(16)))
    step(engine, model)
    assert model.batches[-1] == 4


def test_a_row_that_does_not_fit_alone_lowers_no_bound() -> None:
    model, ends = Doubling(fits=0), Ends()
    engine = an_engine(model, limits(cap=16))
    engine.take(Submit((a_request("big", rows=2, shape="big"),)), 0.0)
    step(engine, model)
    ends.take(engine.settled())
    assert ends.of["big"] == Failed("OutOfMemory: 1 rows do not fit")
    model.fits = 4096
    submit(engine, *(str(n) for n in range(16)))
    step(engine, model)
    assert (engine.cap, model.batches[-1]) == (16, 16)


def test_one_row_that_does_not_fit_alone_lowers_no_bound_through_its_mates() -> None:
    model = Greedy(too_large=107.0)
    engine = an_engine(model, limits(cap=16))
    engine.take(Submit(tuple(a_request(str(n), value=100.0 + n) for n in range(16))), 0.0)
    step(engine, model)
    assert engine.cap == 16


def test_a_shape_that_takes_more_memory_has_a_bound_of_its_own() -> None:
    free = replace(info(), inputs=(TensorSpec("x", "FP32", (-1, -1)),))
    model = Doubling(fits=2, info=free)
    engine = an_engine(model, limits(cap=16, delay_milliseconds=100))
    for round_ in ("first", "again"):
        large = tuple(a_request(f"{round_}-{n}", shape="large") for n in range(4))
        engine.take(Submit(large), 0.0)
        while isinstance(step(engine, model), Batch):
            pass
    assert model.batches == [4, 2, 2, 2, 2]
    model.fits = 4096
    submit(engine, *(str(n) for n in range(16)))
    step(engine, model)
    assert (engine.cap, engine.report().batch_cap_bound, model.batches[-1]) == (16, 4096, 16)


def test_the_shapes_whose_bounds_are_remembered_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_bound, "MAX_SHAPES", 2)
    free = replace(info(), inputs=(TensorSpec("x", "FP32", (-1, -1)),))
    model = Doubling(fits=2, info=free)
    engine = an_engine(model, limits(cap=16))
    for shape in ("a", "b", "c", "c", "a"):
        engine.take(Submit(tuple(a_request(f"{shape}{n}", shape=shape) for n in range(3))), 0.0)
        while isinstance(step(engine, model), Batch):
            pass
    fresh = [3, 2, 1]
    assert model.batches == [*fresh, *fresh, *fresh, 2, 1, *fresh]
