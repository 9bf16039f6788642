"""Selection of the compute backend and the data type for a model, where the settings leave a choice.

On a CPU every combination that the settings allow runs one layer of the model's own shapes, and the fastest is selected;
processor flags play no part. Widening a 16-bit model to float32 is exact, so it loses no precision.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import torch
from transformers import PreTrainedConfig

from penstock_runtime.engine.continuous.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders.step_times import BackendCandidate, StepTimes

_HALF = (torch.bfloat16, torch.float16)
_ON_OPENVINO = (torch.float32, torch.bfloat16)

_log = logging.getLogger(__name__)


Measure = Callable[
    [PreTrainedConfig, StepOptions, Sequence[BackendCandidate]],
    Mapping[BackendCandidate, StepTimes],
]
"""Times of the candidates that run here; the others are left out."""


def select(
    config: PreTrainedConfig,
    options: StepOptions,
    device: torch.device,
    has_room: Callable[[], bool],
    measure: Measure,
) -> BackendCandidate:
    """Return the fastest candidate that `options` allow; in a tie the checkpoint's own type.

    Args:
        config: of the checkpoint.
        options: what is named there is never measured against anything else.
        device: only on CPUs is there a choice.
        has_room: whether the weights fit the memory in float32.
        measure: called only if there are two candidates or more.
    """
    candidates = [
        BackendCandidate(compute, dtype)
        for dtype in _dtypes(config, options, device, has_room)
        for compute in _computes(options, device)
        if dtype in _ON_OPENVINO or compute is Compute.TORCH or options.compute is compute
    ]
    if len(candidates) == 1:
        return candidates[0]
    times = measure(config, options, candidates)
    fallback = BackendCandidate(_computes(options, device)[-1], candidates[0].dtype)
    selected = min(times, key=lambda candidate: times[candidate].request, default=fallback)
    measured = ", ".join(f"{candidate} {taken}" for candidate, taken in times.items())
    _log.info("the model computes on %s, the fastest here: %s", selected, measured)
    return selected


def _computes(options: StepOptions, device: torch.device) -> tuple[Compute, ...]:
    if options.compute is not Compute.AUTO:
        return (options.compute,)
    return (Compute.OPENVINO, Compute.TORCH) if device.type == "cpu" else (Compute.TORCH,)


def _dtypes(
    config: PreTrainedConfig,
    options: StepOptions,
    device: torch.device,
    has_room: Callable[[], bool],
) -> tuple[torch.dtype, ...]:
    if options.dtype is not DType.AUTO:
        return (getattr(torch, options.dtype.value),)
    stored = getattr(config, "dtype", None)
    if not isinstance(stored, torch.dtype):
        return (torch.float32,)
    if device.type != "cpu" or stored not in _HALF:
        return (stored,)
    if not has_room():
        _log.info("%s: float32 is not tried, it does not fit the memory limit", stored)
        return (stored,)
    return (stored, torch.float32)
