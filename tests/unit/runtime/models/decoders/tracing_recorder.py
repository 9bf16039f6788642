"""`TracingRecorder`, a CPU test double of `models.device.cuda_graphs.Recorder` that is as strict as a CUDA graph."""

from collections.abc import Mapping

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from penstock_runtime.models.device.cuda_graphs import Named, Replay


class TracingRecorder:
    """Writes down a call's operations on tensors and runs those alone again.

    As on CUDA, whatever is no tensor stays what it was when it was recorded, tensors that are no inputs are where they
    were, and a look at a value cannot be recorded.
    """

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.replays = 0

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        """Record the operations of a call."""
        captured = [tensor.clone() for tensor in tensors]

        def listed(*given: torch.Tensor) -> dict[str, torch.Tensor]:
            return dict(call(list(given)))

        operations = make_fx(listed)(*captured)
        self.shapes.append(tuple(captured[0].shape))

        def replay(tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
            self.replays += 1
            for mine, given in zip(captured, tensors, strict=True):
                mine.copy_(given)
            outputs: dict[str, torch.Tensor] = operations(*captured)
            return outputs

        return replay
