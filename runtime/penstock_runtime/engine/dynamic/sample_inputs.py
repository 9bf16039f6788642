"""Invented inputs, to run a model before its first request: for measuring memory and for warming up."""

from dataclasses import dataclass

import numpy as np

from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.dynamic.output_check import checked
from penstock_runtime.engine.model import Model, ModelLoadFailed, OutOfMemory, TensorSpec, describe
from penstock_runtime.request import Tensor


@dataclass(frozen=True, slots=True)
class SampleInputs:
    """Inputs of one value throughout, with free dimensions past the rows as near one size as may be."""

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
        """Whether real requests may be larger or smaller than this, so that its time says little of theirs."""
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
    """Return a sample that the model accepts: zeros, or ones where zeros are refused (divisors, lengths).

    Raises:
        ModelLoadFailed: it refuses every one of them, or one row does not fit the device.
    """
    inputs = model.info.inputs
    free_sizes = (16, 1) if any(-1 in spec.shape[1:] for spec in inputs) else (1,)
    samples = [SampleInputs(inputs, value, size) for size in free_sizes for value in (0, 1)]
    refusals = []
    for sample in samples:
        refusal = _refusal(model, sample)
        if refusal is None:
            return sample
        refusals.append(refusal)
    raise ModelLoadFailed(
        f"model '{model.info.name}' fails on a row of zeros and on a row of ones ({refusals[0]}):"
        " make its declared inputs and outputs match what it takes and returns"
    )


def _refusal(model: Model, sample: SampleInputs) -> str | None:
    """Return why the model does not run one row of `sample`, or None when it does."""
    try:
        checked(model.run(sample.inputs(1)), model.info.outputs, 1)
    except OutOfMemory as error:
        raise ModelLoadFailed(
            f"model '{model.info.name}' has no memory for a single row ({describe(error)}):"
            " give the pod a larger device or memory limit"
        ) from error
    except Exception as error:  # noqa: BLE001  a model may raise anything; its words are the reason
        return describe(error)
    return None
