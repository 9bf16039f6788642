"""Selects a model's compute backend and data type where the settings leave them open.

On a CPU every allowed combination runs one layer of the model's shapes, and the fastest is selected; CPU feature
flags are not consulted. Widening a 16-bit model to float32 is exact, so it loses no precision.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import torch
from transformers import PreTrainedConfig

from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders.backends.step_times import StepCandidate, StepTimes

_HALF = (torch.bfloat16, torch.float16)
_ON_OPENVINO = (torch.float32, torch.bfloat16)

_log = logging.getLogger(__name__)


Measure = Callable[
    [PreTrainedConfig, StepOptions, Sequence[StepCandidate]],
    Mapping[StepCandidate, StepTimes],
]
"""Measures candidates; omits those that do not run on this machine."""


def select(
    config: PreTrainedConfig,
    options: StepOptions,
    device: torch.device,
    has_room: Callable[[], bool],
    measure: Measure,
) -> StepCandidate:
    """Return the fastest candidate allowed by `options`; the checkpoint's type wins ties.

    Args:
        config: config of the checkpoint.
        options: settings; a named backend or type is not compared with others.
        device: device of the model; only CPUs have a choice.
        has_room: whether the weights fit in memory in float32.
        measure: called for two or more candidates.
    """
    candidates = [
        StepCandidate(compute, dtype)
        for dtype in _dtypes(config, options, device, has_room)
        for compute in _computes(options, device)
        if dtype in _ON_OPENVINO or compute is Compute.TORCH or options.compute is compute
    ]
    if len(candidates) == 1:
        return candidates[0]
    times = measure(config, options, candidates)
    fallback = StepCandidate(_computes(options, device)[-1], candidates[0].dtype)
    selected = min(times, key=lambda candidate: times[candidate].request, default=fallback)
    measured = ", ".join(f"{candidate} {taken}" for candidate, taken in times.items())
    _log.info("selected %s as the fastest backend: %s", selected, measured)
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
        _log.info("%s: float32 exceeds the memory limit and is not a candidate", stored)
        return (stored,)
    return (stored, torch.float32)
