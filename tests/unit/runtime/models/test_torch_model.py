"""Real torch behind the engine's own execution: slices, split batches, and the emulated accelerator."""

import time
from dataclasses import replace

import numpy as np
import pytest

from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.execution import execute
from penstock_runtime.engine.dynamic.model_io import checked, find_sample
from penstock_runtime.engine.dynamic.warm_up import warm_up
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, OutOfMemory, TensorSpec
from penstock_runtime.models.emulated import create
from penstock_runtime.models.python_factory import load_from_factory
from penstock_runtime.request import Completed, Request, Tensor

HERE = "tests.unit.runtime.models.programs"


def requests(rows_each: list[int], width: int = 4) -> tuple[Request, ...]:
    group = (("INPUT", "FP32", (width,)),)
    return tuple(
        Request(str(n), {"INPUT": np.full((rows, width), n, np.float32)}, rows, group, 0.0)
        for n, rows in enumerate(rows_each)
    )


def test_a_batch_above_real_torchs_memory_is_split_and_everyone_is_served() -> None:
    model = load_from_factory(f"{HERE}:fitting", {"rows": "3"})
    each = requests([1, 2, 1, 3, 1])
    with pytest.raises(OutOfMemory, match="tried to allocate for 8 rows"):
        model.run({"INPUT": np.zeros((8, 4), np.float32)})
    ran = execute(model, Batch(each, 8, cap=8), time.monotonic, lambda: None)
    assert (ran.out_of_memory_splits, ran.bound(8)) == (2, 2)
    for request, (name, end) in zip(each, ran.ends, strict=True):
        assert isinstance(end, Completed)
        assert end.outputs["OUTPUT"].shape == (request.rows, 4)
        assert (end.outputs["OUTPUT"] == 3.0 * int(name)).all()


def test_memory_that_runs_out_already_at_start_bounds_the_cap() -> None:
    model = load_from_factory(f"{HERE}:fitting", {"rows": "5"})
    assert warm_up(model, time.monotonic).bound_rows == 4


def test_a_model_without_room_for_one_row_does_not_load() -> None:
    model = load_from_factory(f"{HERE}:fitting", {"rows": "0"})
    with pytest.raises(ModelLoadFailed, match="runs out of memory on a single row"):
        warm_up(model, time.monotonic)


def test_a_real_module_measures_a_bound_within_the_api() -> None:
    assert 1 <= load_from_factory(f"{HERE}:declared", {}).memory_bound_rows() <= 4096


class Divider:
    """Refuses zeros, as models do that divide by a length."""

    info = ModelInfo(
        name="divider",
        platform="test",
        backend="test",
        inputs=(TensorSpec("x", "INT64", (-1, -1)),),
        outputs=(TensorSpec("y", "INT64", (-1, -1)),),
        max_rows=8,
    )

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if not inputs["x"].all():
            raise ValueError("a length must be above 0")
        return {"y": inputs["x"]}

    def memory_bound_rows(self) -> int:
        return 8


def test_a_model_that_rejects_zeros_is_warmed_with_ones() -> None:
    assert find_sample(Divider()).value == 1


def test_free_dimensions_give_no_prior_for_the_curve() -> None:
    assert warm_up(Divider(), time.monotonic).curve.sums().batches == 0


def test_a_model_that_contradicts_its_declaration_does_not_load() -> None:
    model = Divider()
    model.info = replace(model.info, outputs=(TensorSpec("z", "INT64", (-1, -1)),))
    with pytest.raises(
        ModelLoadFailed, match="model 'divider' fails on a row of zeros and on a row"
    ):
        find_sample(model)


def test_the_declared_outputs_and_nothing_else_are_returned() -> None:
    y = np.zeros((2, 3), np.int64)
    specs = (TensorSpec("y", "INT64", (-1, -1)),)
    assert list(checked({"y": y, "debug": y}, specs, 2)) == ["y"]


def test_the_emulated_accelerator_answers_what_it_documents() -> None:
    model = create(a_milliseconds="0", c_milliseconds="0")
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.testing.assert_array_equal(model.run({"INPUT": x})["OUTPUT"], 2 * x + 1)
    assert model.info.backend == "emulated-accelerator"
    assert model.info.platform == "penstock_emulated_accelerator"


def seconds_of(model: Model, rows: int) -> float:
    began = time.monotonic()
    model.run({"INPUT": np.zeros((rows, 8), np.float32)})
    return time.monotonic() - began


def test_the_emulated_accelerator_takes_its_time_by_the_row() -> None:
    model = create(a_milliseconds="20", c_milliseconds="10")
    assert seconds_of(model, 1) >= 0.030
    assert seconds_of(model, 4) >= 0.060


def test_variants_of_a_pool_can_have_emulated_accelerators_of_unlike_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROW_MILLISECONDS", "40")
    model = create(a_milliseconds="0", c_milliseconds="$ROW_MILLISECONDS")
    assert seconds_of(model, 1) >= 0.040
    with pytest.raises(
        ValueError, match=r"argument a_milliseconds must be a number .* got '\$ABSENT'"
    ):
        create(a_milliseconds="$ABSENT")


def test_the_emulated_accelerators_bound_is_the_configured_one() -> None:
    assert create(a_milliseconds="0", max_rows="32").memory_bound_rows() == 32


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a_milliseconds": "soon"}, "a_milliseconds must be a number from 0"),
        ({"c_milliseconds": "-1"}, "c_milliseconds must be a number from 0"),
        ({"load_seconds": "nan"}, "load_seconds must be a number from 0"),
        ({"features": "0"}, "features must be an integer from 1"),
        ({"max_rows": "1.5"}, "max_rows must be an integer from 1"),
    ],
)
def test_a_senseless_argument_is_named(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        create(**arguments)
