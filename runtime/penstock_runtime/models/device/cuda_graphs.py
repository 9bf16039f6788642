"""Batches of few rows, recorded once and replayed: on a GPU their kernels are shorter than their launches.

Rows are padded to a bucket (1, 2, 4 ... MAX_ROWS), with the last row again, and what comes back is cut. A shape
is recorded at its first sight, which the warm-up before `/readyz` gives it, and compared with a plain run;
a call that cannot be recorded, or whose replay differs, is run plainly from then on.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from penstock_runtime.engine.model import describe

log = logging.getLogger(__name__)

Call = Callable[[list[torch.Tensor]], object]
Named = Callable[[list[torch.Tensor]], Mapping[str, torch.Tensor]]

MAX_ROWS = 64
"""Above this launches are hidden behind the kernels."""
MAX_GRAPHS = 64
"""Each keeps its inputs and outputs; what lies between is shared."""
TOLERANCE = 1e-2
"""A replay runs the same kernels; only their order of adding may differ."""


class Replay(Protocol):
    """A recorded call."""

    def __call__(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Run again on other values of the same shapes; the outputs are overwritten by the next replay."""


class Recorder(Protocol):
    """What can record."""

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        """Return `call` recorded for the shapes of `tensors`.

        Raises:
            RuntimeError: it does what cannot be recorded (a look at a value, a size that depends on one).
        """


class Graphs:
    """A call, by way of its recordings."""

    def __init__(self, call: Named, recorder: Recorder) -> None:
        self._call = call
        self._recorder: Recorder | None = recorder
        self._replays: dict[tuple[torch.Size, ...], Replay] = {}

    def __call__(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return the call's outputs for `tensors`."""
        rows = tensors[0].shape[0]
        if self._recorder is None or rows > MAX_ROWS:
            return self._call(tensors)
        bucket = 1 << (rows - 1).bit_length()
        padded = [_padded(one, bucket) for one in tensors]
        replay = self._replay(self._recorder, padded)
        if replay is None:
            return self._call(tensors)
        return {name: one[:rows] for name, one in replay(padded).items()}

    def _replay(self, recorder: Recorder, padded: list[torch.Tensor]) -> Replay | None:
        shapes = tuple(one.shape for one in padded)
        if shapes in self._replays or len(self._replays) >= MAX_GRAPHS:
            return self._replays.get(shapes)
        try:
            replay = recorder.record(self._call, padded)
            wanted, got = self._call(padded), replay(padded)
        except RuntimeError as error:
            self._give_up(describe(error))
            return None
        if not all(_close(one, got[name]) for name, one in wanted.items()):
            self._give_up("a replay gave other values")
            return None
        self._replays[shapes] = replay
        return replay

    def _give_up(self, reason: str) -> None:
        log.warning("the model runs without CUDA graphs: %s", reason)
        self._recorder = None
        self._replays.clear()


class CudaRecorder:
    """`torch.cuda.CUDAGraph`: recordings share one pool of memory, since one runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._aside: Any = None

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        """As `Recorder`."""
        held = [one.clone() for one in tensors]
        current = torch.cuda.current_stream()
        stream = self._stream(current)
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                call(held)  # libraries set themselves up at a first call, which cannot be recorded
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=stream):
                outputs = call(held)
        finally:
            torch.cuda.set_stream(current)  # a recording that fails leaves its own behind
        self._pool = self._pool or graph.pool()

        def replay(tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
            for mine, given in zip(held, tensors, strict=True):
                mine.copy_(given, non_blocking=True)
            graph.replay()
            return outputs

        return replay

    def _stream(self, current: Any) -> Any:
        """Return the stream to record on, one for all: the default one cannot be recorded."""
        if current != torch.cuda.default_stream():
            return current
        self._aside = self._aside or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        return self._aside


def recorder_of(device: torch.device) -> Recorder | None:
    """Return what records on `device`; None where launches cost too little for that."""
    return CudaRecorder() if device.type == "cuda" else None


def _padded(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - tensor.shape[0]
    if not missing:
        return tensor
    return torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])])


def _close(wanted: torch.Tensor, got: torch.Tensor) -> bool:
    if wanted.shape != got.shape or not wanted.is_floating_point():
        return bool(torch.equal(wanted, got))
    return bool(torch.allclose(wanted.float(), got.float(), TOLERANCE, TOLERANCE, equal_nan=True))
