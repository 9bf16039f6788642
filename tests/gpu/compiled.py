"""torch.compile and Torch-TensorRT where they are present, compared with the model as it is served."""

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from penstock_runtime.engine.model import Model, describe
from penstock_runtime.models.device.cuda_graphs import Graphs, recorder_of
from penstock_runtime.models.torch_model import TorchModel, Wrapping
from penstock_runtime.request import Tensor
from tests.gpu.plan import Setting
from tests.gpu.record import Record

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def compare_compiled(
    name: str, model: Model, batches: list[dict[str, Tensor]], setting: Setting, record: Record
) -> None:
    """Measure rows a second of a model that wraps, or is, a torch call: as it is, and compiled."""
    inner = model.inner if isinstance(model, Wrapping) else model
    if not isinstance(inner, TorchModel):
        record.leave_out(f"{name} compiled", "the packed encoder of CPUs is not compiled")
        return
    seconds, served = setting.size(0.5, 0.02), inner._call
    _forget_graphs(inner)
    plain = _rate(model, batches, seconds)
    record.figure(f"{name}, not compiled", plain, "rows/s")
    for compiler, compile_ in _compilers(setting, record):
        inner._call, began = compile_(served), time.monotonic()
        _forget_graphs(inner)
        try:
            for batch in batches:
                model.run(batch)
            took, rate = time.monotonic() - began, _rate(model, batches, seconds)
        except Exception as error:  # noqa: BLE001  a compiler may raise anything
            record.leave_out(compiler, describe(error, 120))
        else:
            record.figure(f"{name}, {compiler}", rate, f"rows/s, {rate / plain:.2f} times, compiled in {took:.1f} s")  # fmt: skip
        inner._call = served
    _forget_graphs(inner)


def _forget_graphs(model: TorchModel) -> None:
    """Let the model record its present call: a replay would run the former one."""
    recorder = recorder_of(model.device)
    model._run = Graphs(model._named, recorder) if recorder else model._named


def _rate(model: Model, batches: list[dict[str, Tensor]], seconds: float) -> float:
    rows, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        for batch in batches:
            model.run(batch)
            rows += len(next(iter(batch.values())))
    return rows / took


def _compilers(setting: Setting, record: Record) -> list[tuple[str, Compile]]:
    """Return what compiles on this machine; a rehearsal has no C++ compiler to wait for."""
    if setting.rehearsal:
        return [("torch.compile without a compiler", partial(torch.compile, backend="eager"))]
    compilers: list[tuple[str, Compile]] = [("torch.compile", partial(torch.compile, dynamic=True))]
    try:
        importlib.import_module("torch_tensorrt")
    except ImportError as error:
        record.leave_out("Torch-TensorRT", describe(error))
    else:
        compilers.append(("Torch-TensorRT", partial(torch.compile, backend="torch_tensorrt")))
    return compilers
