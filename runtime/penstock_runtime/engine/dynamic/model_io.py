"""`checked` and `find_sample`: check a model's outputs, and find inputs to run it with before its first request.

An output that differs from its declaration fails requests, never the engine.
"""

from dataclasses import dataclass

import numpy as np

from penstock_runtime.engine.datatypes import datatype_of, numpy_dtype
from penstock_runtime.engine.model import Model, ModelLoadFailed, OutOfMemory, TensorSpec, describe
from penstock_runtime.request import Tensor


class BadOutput(Exception):
    """An output differs from its declaration; the message names the output, what it is and what it should be."""


def checked(outputs: object, specs: tuple[TensorSpec, ...], rows: int) -> dict[str, Tensor]:
    """Return the declared outputs of a batch of `rows`, and nothing else.

    Raises:
        BadOutput: one is missing, is not an array, or has another dtype, row count or shape than declared.
    """
    if not isinstance(outputs, dict):
        raise BadOutput(f"the model returned {type(outputs).__name__}, expected a dict of arrays")
    return {spec.name: _checked_one(outputs.get(spec.name), spec, rows) for spec in specs}


def _checked_one(value: object, spec: TensorSpec, rows: int) -> Tensor:
    if not isinstance(value, np.ndarray):
        kind = "nothing" if value is None else type(value).__name__
        raise BadOutput(f"output '{spec.name}' is {kind}, expected an array")
    expected = (rows, *spec.shape[1:])
    if not _fits(value.shape, expected):
        raise BadOutput(f"output '{spec.name}' has shape {value.shape}, expected {expected}")
    if datatype_of(value.dtype) != spec.datatype:
        raise BadOutput(f"output '{spec.name}' has dtype {value.dtype}, expected {spec.datatype}")
    return value


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Return whether `shape` is the expected one, where -1 beyond the first axis is any size."""
    return len(shape) == len(expected) and all(
        allowed in (-1, size) for size, allowed in zip(shape, expected, strict=True)
    )


@dataclass(frozen=True, slots=True)
class SampleInputs:
    """Inputs whose elements all have one value, and whose free dimensions are as close to one size as bounds permit."""

    specs: tuple[TensorSpec, ...]
    value: int
    free_size: int

    def inputs(self, rows: int) -> dict[str, Tensor]:
        """Return a batch of `rows`."""
        return {
            spec.name: np.full(self._shape(spec, rows), self.value, numpy_dtype(spec.datatype))
            for spec in self.specs
        }

    def bytes_per_row(self) -> int:
        """Return the size of one row's inputs."""
        return sum(tensor.nbytes for tensor in self.inputs(1).values())

    @property
    def has_free_dimensions(self) -> bool:
        """Whether requests may be larger or smaller than the sample, so that its time does not predict theirs."""
        return any(-1 in spec.shape[1:] for spec in self.specs)

    def _shape(self, spec: TensorSpec, rows: int) -> tuple[int, ...]:
        bounds = spec.bounds[1:] or ((1, self.free_size),) * (len(spec.shape) - 1)
        return (
            rows,
            *(
                min(max(self.free_size, least), most) if size == -1 else size
                for size, (least, most) in zip(spec.shape[1:], bounds, strict=True)
            ),
        )


def find_sample(model: Model) -> SampleInputs:
    """Return a sample that the model accepts: zeros, or ones where it fails on zeros (divisors, lengths).

    Raises:
        ModelLoadFailed: it fails on all of them, or one row does not fit the device.
    """
    inputs = model.info.inputs
    free_sizes = (16, 1) if any(-1 in spec.shape[1:] for spec in inputs) else (1,)
    samples = [SampleInputs(inputs, value, size) for size in free_sizes for value in (0, 1)]
    failures = []
    for sample in samples:
        failure = _failure(model, sample)
        if failure is None:
            return sample
        failures.append(failure)
    raise ModelLoadFailed(
        f"model '{model.info.name}' fails on a row of zeros and on a row of ones ({failures[0]}):"
        " make its declared inputs and outputs match what it takes and returns"
    )


def _failure(model: Model, sample: SampleInputs) -> str | None:
    """Return the error of a run with one row of `sample`, or None if it succeeds."""
    try:
        checked(model.run(sample.inputs(1)), model.info.outputs, 1)
    except OutOfMemory as error:
        raise ModelLoadFailed(
            f"model '{model.info.name}' runs out of memory on a single row ({describe(error)}):"
            " give the pod a larger device or memory limit"
        ) from error
    except Exception as error:  # noqa: BLE001  a model may raise anything
        return describe(error)
    return None
