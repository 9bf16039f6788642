"""Before the first request: how many rows fit, and how long 1, 2, 4 ... of them take.

The times are published as a prior (CONTROL.md, "service curve"), so that a cap that never moves does not
hide the curve's slope. They count in the same epoch as the batches that follow.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock_api.limits import MAX_BATCH_SIZE
from penstock_runtime.engine.curve import Curve
from penstock_runtime.models.base import Model, OutOfMemory
from penstock_runtime.models.outputs import checked
from penstock_runtime.models.sample import Sample, find_sample

WARM_UP_SECONDS = 2.0
"""No size is begun after this long: a slow model's start must not be dominated by it."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What was learnt."""

    curve: Curve
    bound_rows: int
    """The most rows that memory and program allow, at least 1."""


def warm_up(model: Model, clock: Callable[[], float]) -> WarmUp:
    """Measure `model`; a size that runs out of memory lowers the bound to the last that did not.

    Raises:
        ModelLoadFailed: not even one row of any invented sample runs.
    """
    sample, curve, began = find_sample(model), Curve(), clock()
    bound = max(1, min(int(model.memory_bound_rows()), model.info.max_rows, MAX_BATCH_SIZE))
    largest = 1
    for rows in _sizes(bound):
        if clock() - began > WARM_UP_SECONDS:
            break
        try:
            seconds = _second_run_seconds(model, sample, rows, clock)
        except (OutOfMemory, MemoryError):
            return WarmUp(curve, largest)
        largest = rows
        if not sample.has_free_dimensions:
            curve.note(rows, seconds)
    return WarmUp(curve, bound)


def _sizes(bound: int) -> Iterator[int]:
    """1, 2, 4 ... and `bound` itself."""
    rows = 1
    while rows < bound:
        yield rows
        rows *= 2
    yield bound


def _second_run_seconds(
    model: Model, sample: Sample, rows: int, clock: Callable[[], float]
) -> float:
    """The first run of a size pays for allocations and kernel choice, which later batches do not."""
    inputs = sample.inputs(rows)
    model.run(inputs)
    began = clock()
    checked(model.run(inputs), model.info.outputs, rows)
    return clock() - began
