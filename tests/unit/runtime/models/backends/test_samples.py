import numpy as np
import pytest

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.models.backends.samples import greatest_error, random_batch

FP32, INT64, FP64 = (TensorSpec("y", kind, (-1, 2)) for kind in ("FP32", "INT64", "FP64"))


def error(
    spec: TensorSpec, wanted: list[float], got: list[float], **more: str
) -> tuple[float, bool]:
    dtype = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64}[spec.datatype]
    greatest, problem = greatest_error(
        {"y": np.array([wanted], dtype)}, {"y": np.array([got], more.get("as_", dtype))}, [spec]
    )
    return greatest, problem is None


def test_the_error_is_relative_to_the_greatest_value() -> None:
    assert error(FP32, [100.0, 1.0], [100.0, 1.05])[1]
    greatest, agrees = error(FP32, [1e-4, 0.0], [1.1e-4, 0.0])
    assert greatest == pytest.approx(0.1, rel=1e-3)
    assert not agrees


def test_the_tolerance_depends_on_the_type() -> None:
    assert error(FP32, [1.0, 1.0], [1.0, 1.0005])[1]
    assert not error(FP64, [1.0, 1.0], [1.0, 1.0005])[1]
    assert not error(INT64, [1, 2], [1, 3])[1]
    assert error(INT64, [1, 2], [1, 2]) == (0.0, True)


def test_what_is_not_finite_must_be_the_same() -> None:
    nan, inf = float("nan"), float("inf")
    assert error(FP32, [nan, 1.0], [nan, 1.0]) == (0.0, True)
    assert not error(FP32, [nan, 1.0], [0.0, 1.0])[1]
    assert not error(FP32, [0.0, 1.0], [nan, 1.0])[1]
    assert not error(FP32, [inf, 1.0], [-inf, 1.0])[1]


def test_another_type_or_shape_never_agrees() -> None:
    assert not error(FP32, [1.0, 1.0], [1.0, 1.0], as_="f8")[1]
    assert not error(FP32, [1.0, 1.0], [1.0, 1.0, 1.0])[1]
    assert not error(FP32, [0.0, 0.0], [1e-9, 0.0])[1]
    assert greatest_error({"y": np.zeros(1, np.float32)}, {}, [FP32])[1] is not None


def test_texts_have_rows_of_different_lengths_within_their_vocabulary() -> None:
    bounds = ((1, 64), (1, 40))
    info = ModelInfo(
        "m", "p", "cpu",
        (
            TensorSpec("ids", "INT64", (-1, -1), bounds, ragged=True, values=range(7, 9)),
            TensorSpec("mask", "INT64", (-1, -1), bounds, ragged=True, marks=True),
        ),
        (), 64,
    )  # fmt: skip
    drawn = random_batch(info, 8)
    assert drawn["ids"].shape == drawn["mask"].shape == (8, 40)
    lengths = drawn["mask"].sum(1)
    assert lengths.min() >= 1
    assert len(set(lengths.tolist())) > 3
    assert set(drawn["ids"][drawn["mask"] == 1].tolist()) == {7, 8}
