"""CUDA graphs for small batches, which are launch-bound: captured once, then replayed.

Rows are padded to a bucket (1, 2, 4 ... MAX_ROWS) by repeating the last row, and the outputs are trimmed. Each shape is
captured at its first occurrence, in the warm-up before `/readyz`, and compared with an eager run. If a capture fails,
or a replay differs, all further calls run eagerly.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from typing_extensions import override

from penstock_runtime.engine.model import describe

log = logging.getLogger(__name__)

Call = Callable[[list[torch.Tensor]], object]
Named = Callable[[list[torch.Tensor]], Mapping[str, torch.Tensor]]

MAX_ROWS = 64
"""Rows above which kernel time hides launch overhead."""
MAX_GRAPHS = 64
"""Maximum number of captured shapes; each keeps its inputs and outputs, and all share intermediate memory."""
TOLERANCE = 1e-2
"""Tolerated difference of a replay, which runs the same kernels, so only the order of summation may differ."""


class Replay(Protocol):
    """A captured call."""

    def __call__(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Run on other values of the same shapes; the next replay overwrites the outputs."""


class Recorder(Protocol):
    """Captures calls as graphs."""

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        """Return the capture of `call` for the shapes of `tensors`.

        Raises:
            RuntimeError: `call` cannot be captured: it copies a value to the host, or a shape depends on one.
        """


class Graphs:
    """A call that replays its captures."""

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
        padded = [_padded(tensor, bucket) for tensor in tensors]
        replay = self._replay(self._recorder, padded)
        if replay is None:
            return self._call(tensors)
        return {name: output[:rows] for name, output in replay(padded).items()}

    def _replay(self, recorder: Recorder, padded: list[torch.Tensor]) -> Replay | None:
        shapes = tuple(tensor.shape for tensor in padded)
        if shapes in self._replays or len(self._replays) >= MAX_GRAPHS:
            return self._replays.get(shapes)
        try:
            replay = recorder.record(self._call, padded)
            expected, got = self._call(padded), replay(padded)
        except RuntimeError as error:
            self._disable(describe(error))
            return None
        if not all(_close(values, got[name]) for name, values in expected.items()):
            self._disable("a replay returned different values")
            return None
        self._replays[shapes] = replay
        return replay

    def _disable(self, reason: str) -> None:
        log.warning("the model runs without CUDA graphs: %s", reason)
        self._recorder = None
        self._replays.clear()


class CudaRecorder(Recorder):
    """Captures by `torch.cuda.CUDAGraph`; all share one memory pool, since one runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._side_stream: Any = None

    @override
    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        inputs = [tensor.clone() for tensor in tensors]
        current = torch.cuda.current_stream()
        stream = self._stream(current)
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                call(inputs)  # the first call initializes libraries, which cannot be captured
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=stream):
                outputs = call(inputs)
        finally:
            torch.cuda.set_stream(current)  # a failed capture leaves its own stream current
        self._pool = self._pool or graph.pool()

        def replay(tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
            for target, source in zip(inputs, tensors, strict=True):
                target.copy_(source, non_blocking=True)
            graph.replay()
            return outputs

        return replay

    def _stream(self, current: Any) -> Any:
        """Return the stream for captures, which cannot run on the default stream."""
        if current != torch.cuda.default_stream():
            return current
        self._side_stream = self._side_stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        return self._side_stream


def recorder_of(device: torch.device) -> Recorder | None:
    """Return the recorder of `device`; None for a CPU."""
    return CudaRecorder() if device.type == "cuda" else None


def _padded(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - tensor.shape[0]
    if not missing:
        return tensor
    return torch.cat([tensor, tensor[-1:].expand(missing, *tensor.shape[1:])])


def _close(expected: torch.Tensor, got: torch.Tensor) -> bool:
    if expected.shape != got.shape or not expected.is_floating_point():
        return bool(torch.equal(expected, got))
    return bool(torch.allclose(expected.float(), got.float(), TOLERANCE, TOLERANCE, equal_nan=True))
