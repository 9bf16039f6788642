"""Batches of random rows to compare and time backends with, and the difference of their outputs."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.dynamic.model_io import find_sample
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed, TensorSpec, describe
from penstock_runtime.models import precision
from penstock_runtime.request import Tensor

BATCH_SIZES: Final = (1, 8, 32)
"""Rows of the batches that are compared and timed."""
TOLERANCES: Final[Mapping[str, float]] = {"FP64": 1e-9, "FP32": 1e-3, "FP16": 1e-2}
"""Tolerated difference by datatype of an output, relative to its greatest value: another order of float32 summation
changes outputs by 1e-6 (by 1e-4 in the worst random models), a wrong operator by 1e-1. Integers and booleans must be
equal."""
_LENGTHS = (24, 48, 16, 96, 32, 16, 64, 128)
"""Lengths of successive rows of texts, in tokens."""
_FREE_SIZE = 16

Batch = dict[str, Tensor]


def batches(model: Model, seed: int = 0) -> list[Batch]:
    """Return a batch of each of `BATCH_SIZES` that `model` accepts.

    Floats are normally distributed, and integers 0 or 1 unless their range is declared. A model that fails on those gets
    the constant rows of `find_sample`.

    Raises:
        ModelLoadFailed: it fails on every row.
    """
    sizes = sorted({min(size, model.info.max_rows) for size in BATCH_SIZES})
    drawn = [random_batch(model.info, size, seed) for size in sizes]
    try:
        model.run(drawn[0])
    except Exception:  # noqa: BLE001  a model may raise anything
        sample = find_sample(model)
        return [sample.inputs(size) for size in sizes]
    return drawn


def random_batch(info: ModelInfo, rows: int, seed: int = 0) -> Batch:
    """Return random inputs of `rows`; rows of texts have different lengths."""
    random = np.random.default_rng(seed)
    lengths = np.resize(_LENGTHS, rows)
    return {spec.name: _tensor(spec, lengths, random) for spec in info.inputs}


def greatest_error(
    expected: Batch, got: Batch, specs: Sequence[TensorSpec], dtype: DType = DType.AUTO
) -> tuple[float, str | None]:
    """Return the greatest relative difference of all outputs, and a description if it is not tolerated.

    In a narrow `dtype`, the difference of integers and booleans is the share of values that differ.
    """
    greatest, problem = 0.0, None
    for spec in specs:
        narrow = precision.TOLERANCES.get(dtype)
        error = _error(expected[spec.name], got.get(spec.name), as_share=narrow is not None)
        greatest = max(greatest, error)
        allowed = TOLERANCES.get(spec.datatype, 0.0) if narrow is None else narrow
        if not error <= allowed and problem is None:
            problem = (
                f"output '{spec.name}' differs from the untouched model by {error:.1e} of its greatest value,"
                f" tolerated for {spec.datatype if narrow is None else dtype} is {allowed:.0e}"
            )
    return greatest, problem


def precision_error(untouched: Model, model: Model, dtype: DType) -> float:
    """Return the greatest difference of `model`, in a narrow `dtype`, from the untouched one on batches of random rows.

    Raises:
        ModelLoadFailed: it is above the tolerance of the type, or the model does not compute in it.
    """
    errors = []
    for batch in batches(untouched):
        expected = untouched.run(batch)
        try:
            got = model.run(batch)
        except Exception as error:  # a model may raise anything
            raise ModelLoadFailed(
                f"the model does not compute in {dtype} ({describe(error)}): remove spec.model.dtype"
            ) from error
        errors.append(greatest_error(expected, got, untouched.info.outputs, dtype)[0])
    precision.check_error(dtype, max(errors))
    return max(errors)


def _error(expected: Tensor, got: Tensor | None, *, as_share: bool = False) -> float:
    """Return the greatest difference over the greatest finite value; infinity where shape, dtype or NaN differ."""
    if got is None or got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind not in "f":
        if as_share:
            return float(np.mean(expected != got))
        return 0.0 if np.array_equal(expected, got) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(got)) or not np.array_equal(
        expected[~finite], got[~finite], equal_nan=True
    ):
        return float("inf")
    wide = expected[finite].astype(np.float64)
    difference = float(np.abs(wide - got[finite].astype(np.float64)).max(initial=0.0))
    scale = float(np.abs(wide).max(initial=0.0))
    return difference / scale if scale else (0.0 if difference == 0.0 else float("inf"))


def _tensor(spec: TensorSpec, lengths: Tensor, random: np.random.Generator) -> Tensor:
    dtype, rows = numpy_dtype(spec.datatype), len(lengths)
    shape = (rows, *(_size(spec, axis, lengths) for axis in range(1, len(spec.shape))))
    drawn = _values(spec, shape, dtype, random)
    if not spec.ragged:
        return drawn
    is_token = np.arange(shape[1])[None] < np.minimum(lengths, shape[1])[:, None]
    return (is_token if spec.marks else np.where(is_token, drawn, 0)).astype(dtype)


def _size(spec: TensorSpec, axis: int, lengths: Tensor) -> int:
    size = spec.shape[axis]
    if size != -1:
        return size
    least, most = spec.bounds[axis] if spec.bounds else (1, _FREE_SIZE)
    wanted = int(lengths.max()) if spec.ragged and axis == 1 else _FREE_SIZE
    return min(max(wanted, least), most)


def _values(
    spec: TensorSpec,
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic],
    random: np.random.Generator,
) -> Tensor:
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    valid = spec.values or range(2)
    return random.integers(valid.start, valid.stop, shape).astype(dtype)
