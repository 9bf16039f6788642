"""`execute`: runs one batch until each of its requests has ended, and splits it if the model fails on it.

A batch is split for two reasons. One request may cause an error of the model, so the batch is halved until that
request is alone: it fails with the model's message, and the others complete (one such request among n costs about
2 log2 n more runs). Running out of memory is not caused by one request, so the batch runs in slices of half the rows,
and half again; a request fails only if one of its rows does not fit alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.model_io import checked
from penstock_runtime.engine.model import DeviceLost, Model, OutOfMemory, describe
from penstock_runtime.request import Completed, End, Failed, Request, Tensor

Tensors = dict[str, Tensor]

_OUT_OF_MEMORY = (OutOfMemory, MemoryError)


@dataclass(slots=True)
class BatchResult:
    """The result of one batch."""

    batch: Batch
    ends: list[tuple[str, End]] = field(default_factory=list)
    runs: list[tuple[int, float]] = field(default_factory=list)
    """Rows and seconds of each run of the model that succeeded."""
    seconds: float = 0.0
    """Duration of all runs, failed ones included."""
    out_of_memory_splits: int = 0
    single_rows_out_of_memory: int = 0
    """Runs of a single row that ran out of memory."""

    def bound(self, known: int) -> int:
        """Return the new bound of the rows per batch: after a split the largest run that succeeded, at most `known`.

        A row that does not fit alone leaves the bound as it is: the row was too large, not the number of rows.
        """
        if not self.out_of_memory_splits or self.single_rows_out_of_memory:
            return known
        return min(known, max((rows for rows, _ in self.runs), default=known))


def execute(
    model: Model, batch: Batch, clock: Callable[[], float], tick: Callable[[], None]
) -> BatchResult:
    """Run `batch`; each of its requests has exactly one end in the result, whatever the model raises.

    `tick` is called before each run of the model: the heartbeat of a batch that is split many times goes on.

    Raises:
        DeviceLost: no further batch can run in this process.
    """
    return _Execution(model, batch, clock, tick).result


class _Execution:
    def __init__(
        self, model: Model, batch: Batch, clock: Callable[[], float], tick: Callable[[], None]
    ) -> None:
        self._model = model
        self._clock = clock
        self._tick = tick
        self._began = clock()
        self.result = BatchResult(batch)
        self._serve(batch.requests, batch.rows, batch.cap)

    def _serve(self, requests: Sequence[Request], rows: int, slice_rows: int) -> None:
        """End all `requests`, running at most `slice_rows` rows at a time.

        Retries run outside the except blocks: an exception that is still referenced keeps the
        tensors of the batch that did not fit alive through its traceback.
        """
        out_of_memory = False
        try:
            outputs = self._run(assemble(requests), rows, slice_rows)
        except DeviceLost:
            raise
        except _OUT_OF_MEMORY as error:
            out_of_memory, reason = True, describe(error)
        except Exception as error:  # noqa: BLE001  a model may raise anything
            reason = describe(error)
        else:
            self._complete(requests, outputs)
            return
        tried_rows = min(rows, slice_rows)
        if out_of_memory and tried_rows > 1:
            self.result.out_of_memory_splits += 1
            self._serve(requests, rows, -(-tried_rows // 2))
        else:
            self.result.single_rows_out_of_memory += out_of_memory
            self._bisect(requests, slice_rows, reason)

    def _bisect(self, requests: Sequence[Request], slice_rows: int, reason: str) -> None:
        if len(requests) == 1:
            self.result.ends.append((requests[0].id, Failed(reason)))
            return
        middle = len(requests) // 2
        for half in (requests[:middle], requests[middle:]):
            self._serve(half, sum(request.rows for request in half), slice_rows)

    def _run(self, inputs: Tensors, rows: int, slice_rows: int) -> Tensors:
        if rows <= slice_rows:
            return self._step(inputs, rows)
        parts = [
            self._step(
                cut(inputs, start, min(start + slice_rows, rows)), min(slice_rows, rows - start)
            )
            for start in range(0, rows, slice_rows)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _step(self, inputs: Tensors, rows: int) -> Tensors:
        self._tick()
        began = self._clock()
        try:
            outputs = checked(self._model.run(inputs), self._model.info.outputs, rows)
        finally:
            seconds = self._clock() - began
            self.result.seconds += seconds
        self.result.runs.append((rows, seconds))
        return outputs

    def _complete(self, requests: Sequence[Request], outputs: Tensors) -> None:
        began, ends = self._began, self.result.ends
        for request, mine in zip(requests, split_outputs(requests, outputs), strict=True):
            ends.append((request.id, Completed(mine, began - request.arrived)))


def assemble(requests: Sequence[Request]) -> Tensors:
    """Return the inputs of all requests, concatenated by row; the arrays of a single request are not copied."""
    if len(requests) == 1:
        return requests[0].inputs
    return {
        name: _stacked([request.inputs[name] for request in requests])
        for name in requests[0].inputs
    }


def _stacked(parts: list[Tensor]) -> Tensor:
    """Return `parts` concatenated by row; if their lengths (axis 1) differ, shorter ones are padded with zeros."""
    if len({part.shape[1:] for part in parts}) == 1:
        return np.concatenate(parts)
    widest = max(part.shape[1] for part in parts)
    rows = sum(part.shape[0] for part in parts)
    stacked = np.zeros((rows, widest, *parts[0].shape[2:]), parts[0].dtype)
    start = 0
    for part in parts:
        stacked[start : start + part.shape[0], : part.shape[1]] = part
        start += part.shape[0]
    return stacked


def split_outputs(requests: Sequence[Request], outputs: Tensors) -> list[Tensors]:
    """Return the rows of each request in the outputs of a batch, as views."""
    if len(requests) == 1:
        return [outputs]
    if all(request.rows == 1 for request in requests):
        return _rows(outputs)
    parts, start = [], 0
    for request in requests:
        parts.append(cut(outputs, start, start + request.rows))
        start += request.rows
    return parts


def _rows(outputs: Tensors) -> list[Tensors]:
    """Return the outputs of requests of one row each: iterating over an array is faster than slicing it."""
    if len(outputs) == 1:
        ((name, tensor),) = outputs.items()
        return [{name: row} for row in tensor[:, None]]
    columns = [list(tensor[:, None]) for tensor in outputs.values()]
    return [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]


def cut(tensors: Tensors, start: int, stop: int) -> Tensors:
    """Return views of rows `start` to `stop`."""
    return {name: tensor[start:stop] for name, tensor in tensors.items()}
