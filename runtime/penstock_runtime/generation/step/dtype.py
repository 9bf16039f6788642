"""Choice of the type that weights, keys and values are computed in, where no setting names one.

A CPU may compute 16-bit types faster than float32, or many times slower: it is measured on a layer of the model's own
shapes, never read from the processor's flags. Widening to float32 is exact, so no answer loses precision by it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import torch
from transformers import PreTrainedConfig

from penstock_runtime.generation.options import DType, StepOptions
from penstock_runtime.generation.step.dtype_times import TypeTimes

Measure = Callable[
    [PreTrainedConfig, StepOptions, Sequence[torch.dtype]], Mapping[torch.dtype, TypeTimes]
]
"""Times of the types that run here; one that does not is left out."""

_log = logging.getLogger(__name__)


def choose_dtype(
    config: PreTrainedConfig,
    options: StepOptions,
    device: torch.device,
    has_room: Callable[[], bool],
    measure: Measure,
) -> torch.dtype:
    """Return the type that `options` name, else the checkpoint's, else float32 where that is faster and has room."""
    if options.dtype is not DType.AUTO:
        named: torch.dtype = getattr(torch, options.dtype.value)
        return named
    stored = getattr(config, "dtype", None)
    if not isinstance(stored, torch.dtype):
        return torch.float32
    if device.type != "cpu" or stored not in (torch.bfloat16, torch.float16):
        return stored
    if not has_room():
        _log.info("%s: float32 was not tried, it does not fit the memory limit", _name(stored))
        return stored
    times = measure(config, options, (stored, torch.float32))
    fastest = _fastest(times, stored)
    told = ", ".join(f"{_name(one)} {found}" for one, found in times.items())
    _log.info("the model computes in %s, the fastest type here: %s", _name(fastest), told)
    return fastest


def _fastest(times: Mapping[torch.dtype, TypeTimes], stored: torch.dtype) -> torch.dtype:
    """Return the type whose request takes the least time: `stored` in a tie, and where none was measured."""
    return min(times, key=lambda one: times[one].request, default=stored)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
