"""`recorder_for`: CUDA graphs on a device; in a rehearsal a recorder that runs the call again on the values given later."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import torch

from penstock_runtime.models.decoders import warm_up
from penstock_runtime.models.decoders.backends import registry
from penstock_runtime.models.device.cuda_graphs import CudaRecorder, Named, Recorder, Replay
from tests.gpu.plan import Setting


class RepeatingRecorder:
    """Repeats a call on tensors of its own, as a replay would; whether a call can be captured, only a device says."""

    def record(self, call: Named, tensors: list[torch.Tensor]) -> Replay:
        """Return a call that copies other values into those tensors and repeats `call`."""
        inputs = [tensor.clone() for tensor in tensors]

        def replay(tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
            for target, source in zip(inputs, tensors, strict=True):
                target.copy_(source)
            return call(inputs)

        return replay


def recorder_for(setting: Setting) -> Recorder:
    """Return the recorder of the setting's device."""
    return CudaRecorder() if setting.on_cuda else RepeatingRecorder()


@contextmanager
def recorded(setting: Setting) -> Iterator[None]:
    """Let decode steps of models that are opened within be recorded on any device."""
    if setting.on_cuda:
        yield
        return
    repeated = patch.object(registry, "recorder_of", lambda _device: RepeatingRecorder())
    with repeated, patch.object(warm_up, "MAX_SECONDS", 0.0):  # no timed steps
        yield
