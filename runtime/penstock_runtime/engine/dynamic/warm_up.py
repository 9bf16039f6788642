"""`warm_up`: measures, before the first request, how many rows fit and the durations of batches of 1, 2, 4 ... rows.

The durations are published as a prior (docs/design/control-law.md#service-curve), so that the service curve has a
slope even under a fixed cap. They count in the same epoch as the batches that follow.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.engine.dynamic.model_io import SampleInputs, checked, find_sample
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.model import Model, OutOfMemory

WARM_UP_SECONDS = 2.0
"""Time after which no further size starts, so that warm-up does not dominate the start of a slow model."""
LENGTHS_SECONDS = 4.0
"""The same for a model with length buckets, which runs each number of rows at each length."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Result of the warm-up."""

    curve: BatchServiceCurve
    bound_rows: int
    """Maximum rows per batch by memory and program, at least 1."""


def warm_up(model: Model, clock: Callable[[], float]) -> WarmUp:
    """Measure `model`; a size that runs out of memory lowers the bound to the size before it.

    Raises:
        ModelLoadFailed: no sample of one row runs.
    """
    sample = find_sample(model)
    bound = max(1, min(int(model.memory_bound_rows()), model.info.max_rows, MAX_BATCH_SIZE))
    if model.info.length_buckets:
        return WarmUp(BatchServiceCurve(), _fit_at_every_length(model, sample, bound, clock))
    return _measure(model, sample, bound, clock)


def _measure(model: Model, sample: SampleInputs, bound: int, clock: Callable[[], float]) -> WarmUp:
    curve, largest, began = BatchServiceCurve(), 0, clock()
    for rows in _sizes(bound):
        if largest and clock() - began > WARM_UP_SECONDS:
            break
        try:
            seconds = _second_run_seconds(model, sample, rows, clock)
        except (OutOfMemory, MemoryError):
            return WarmUp(curve, max(1, largest))
        largest = rows
        if not sample.has_free_dimensions:
            curve.note(rows, seconds)
    return WarmUp(curve, bound)


def _fit_at_every_length(
    model: Model, sample: SampleInputs, bound: int, clock: Callable[[], float]
) -> int:
    """Run each number of rows at each length bucket, few rows first; return how many rows fit at all lengths."""
    lengths = [replace(sample, free_size=bucket) for bucket in model.info.length_buckets]
    fitting, began = 1, clock()
    for rows in _sizes(bound):
        for inputs in lengths:
            if clock() - began > LENGTHS_SECONDS:
                return bound
            try:
                checked(model.run(inputs.inputs(rows)), model.info.outputs, rows)
            except (OutOfMemory, MemoryError):
                return fitting
        fitting = rows
    return bound


def _sizes(bound: int) -> Iterator[int]:
    """Yield 1, 2, 4 ... and `bound`."""
    rows = 1
    while rows < bound:
        yield rows
        rows *= 2
    yield bound


def _second_run_seconds(
    model: Model, sample: SampleInputs, rows: int, clock: Callable[[], float]
) -> float:
    """Return the duration of the second run of a size: the first also allocates and selects kernels."""
    inputs = sample.inputs(rows)
    model.run(inputs)
    began = clock()
    checked(model.run(inputs), model.info.outputs, rows)
    return clock() - began
