"""The memory bound of one-shot batches: measured at load, and lowered by a batch that does not fit."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_runtime.engine.dynamic.batch_former import Batch
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.opening import open_batch_engine
from penstock_runtime.engine.model import Model, group_of
from penstock_runtime.models.device.memory import SHARE_OF_FREE, meter_of
from penstock_runtime.models.python_factory import FactorySource
from penstock_runtime.request import Completed, Request
from tests.gpu.modules import FEATURES, Roomy
from tests.gpu.plan import Setting
from tests.gpu.record import Record

ROOM_GIBIBYTES = 24.0
"""Free device memory during the measurement: a card that is partly in use."""
PER_ROW = (0.9, 1.5)
"""Accepted measurement of the memory per row, relative to the true size."""


def measure_memory(setting: Setting, record: Record) -> None:
    """Measure memory per row and the cap, run a batch of the cap, then one that does not fit any more."""
    mebibytes, max_rows = setting.size(32, 1), setting.size(4096, 64)
    with _only(setting, ROOM_GIBIBYTES * 2**30):
        module = Roomy(mebibytes, max_rows)
        model = FactorySource(module, "roomy", {}).native_model()
        free = meter_of(setting.device).free_bytes()
        limits = LimitsUpdate(
            generation=1, max_batch_size=max_rows, max_queue_depth=100_000,
            max_queue_delay_milliseconds=0, discipline=Discipline.FIRST_IN_FIRST_OUT,
        )  # fmt: skip
        opened = open_batch_engine(lambda: model, limits, time.monotonic)
        bound = opened.engine.cap
        per_row = SHARE_OF_FREE * free / bound / 2**20
        record.figure("memory: the cap that it gives", bound, f"rows of {mebibytes} MiB, {free / 2**30:.1f} GiB free")  # fmt: skip
        if setting.on_cuda:
            within = PER_ROW[0] <= per_row / mebibytes <= PER_ROW[1]
            record.check("memory per row as measured is its true size", holds=within, detail=f"{per_row:.1f} MiB of {mebibytes}")  # fmt: skip
        completed, splits, after = _batch(opened.engine, model, bound)
        record.check("a batch of the cap runs whole", holds=completed and not splits, detail=f"{splits} splits")  # fmt: skip
        with _too_small(module, bound, mebibytes, setting):
            completed, splits, after = _batch(opened.engine, model, bound)
        record.check("a batch that does not fit is split and answered", holds=completed and splits > 0, detail=f"{splits} splits")  # fmt: skip
        record.check("it lowers the bound", holds=after < bound, detail=f"{bound} to {after} rows")
        completed, splits, _ = _batch(opened.engine, model, after)
        record.check("the next batch runs whole", holds=completed and not splits)


def _batch(engine: BatchEngine, model: Model, rows: int) -> tuple[bool, int, int]:
    """Run one batch of `rows` single-row requests; return whether all were answered, its splits, and the cap after it."""
    values = np.random.default_rng(rows).standard_normal((rows, 1, FEATURES)).astype(np.float32)
    requests = []
    for index in range(rows):
        inputs = {"INPUT": values[index]}
        group = group_of(model.info, inputs)
        requests.append(Request(f"r{index}", inputs, 1, group, time.monotonic(), None, 0, ""))
    engine.admit(requests, time.monotonic())
    placement = engine.plan(time.monotonic())
    assert isinstance(placement, Batch), placement
    result = engine.run(placement, time.monotonic, lambda: None)
    engine.complete(result)
    ends = dict(result.ends)
    right = [
        isinstance(end, Completed)
        and np.allclose(end.outputs["OUTPUT"], 2 * request.inputs["INPUT"] + 1, atol=1e-5)
        for request in requests
        if (end := ends.get(request.id)) is not None
    ]
    return len(right) == rows and all(right), result.out_of_memory_splits, engine.cap


@contextmanager
def _only(setting: Setting, free_bytes: float) -> Iterator[None]:
    """Leave only `free_bytes` of the device free, as if other programs had the rest."""
    if not setting.on_cuda:
        yield
        return
    taken = torch.cuda.mem_get_info(setting.device)[0] - int(free_bytes)
    ballast = torch.empty(max(taken, 0), dtype=torch.uint8, device=setting.device)
    try:
        yield
    finally:
        del ballast
        torch.cuda.empty_cache()


@contextmanager
def _too_small(module: Roomy, bound: int, mebibytes: int, setting: Setting) -> Iterator[None]:
    """Let only a third of `bound` rows fit."""
    fitting = max(1, bound // 3)
    if not setting.on_cuda:
        before, module.fitting_rows = module.fitting_rows, fitting
        yield
        module.fitting_rows = before
        return
    torch.cuda.empty_cache()
    with _only(setting, fitting * mebibytes * 2**20):
        yield
