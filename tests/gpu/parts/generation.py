"""Generation of a 1B-class Llama on the device: decode compared with the bandwidth, prefill with the matrix rate, peers.

Model, engine and arithmetic are those of `tests/bench/generation/device.py`.
"""

import gc
import importlib
import time
from pathlib import Path
from statistics import median

import torch

from penstock_runtime.engine.continuous.steps.options import Compute
from penstock_runtime.models.device.device import backend_of
from tests.bench.generation import models
from tests.bench.generation.device import BATCHES, Line, RecordedPeer, line
from tests.bench.generation.peers import transformers_batch
from tests.bench.generation.roofline import bandwidth, footprint, matrix_rate, prompt_operations
from tests.bench.generation.workload import Work, WorkSize, work
from tests.gpu.attention import compare
from tests.gpu.llama import decode_size, decode_work, model_folder
from tests.gpu.plan import Setting
from tests.gpu.record import Record
from tests.gpu.recording import recorded
from tests.gpu.timing import wait

SHARES = {1: 0.60, 8: 0.55, 64: 0.45}
"""Targets of the share of the measured bandwidth, by batch size."""
RATIO = 1.2
"""Target of the rate relative to transformers' `generate_batch`."""
PREFILL = 0.5
"""Target of the share of the measured matrix rate."""
BUDGETS = (512, 2048, 8192)
"""Tokens per step of the prefill; a pod's default is the first."""
PEER_SECONDS = 20.0
"""No batch size of the peer starts with less time left."""


class Peer(RecordedPeer):
    """This project's engine on torch, on any device."""

    compute = Compute.TORCH


def run(setting: Setting, record: Record) -> None:
    """Measure the ceilings, then this engine, then attention alone, and the slow peer last."""
    dtype = setting.size("bfloat16", "float32")
    record.figure("device", backend_of(setting.device))
    gb_per_second = bandwidth(setting.device, setting.size(1 << 30, 1 << 22))
    record.figure("bandwidth of a copy", gb_per_second, "GB/s read and written")
    folder = model_folder(setting)
    lines: dict[int, Line] = {}
    with record.section("this engine"):
        with recorded(setting):
            ours = Peer(folder, dtype, setting.device)
        lines = _decode(ours, folder, gb_per_second, setting, record)
        with record.section("prefill"):
            _prefill(ours, folder, setting, record)
        decoder = ours._step._decoder
        record.figure("decoder", f"{ours.about}, {type(decoder).__name__}", f"{decoder.captures} captures")  # fmt: skip
        ours._runner.close()
        del ours, decoder
        gc.collect()
    compare(setting, record, gb_per_second, getattr(torch, dtype))
    with record.section("generate_batch"):
        _peer(folder, dtype, setting, record, lines)


def _decode(
    ours: Peer,
    folder: Path,
    gb_per_second: float,
    setting: Setting,
    record: Record,
) -> dict[int, Line]:
    """Measure decode at each batch size."""
    lines: dict[int, Line] = {}
    read = footprint(folder, getattr(torch, ours._step.info.dtype))
    for batch in BATCHES:
        lines[batch] = measured = line(ours, batch, decode_size(setting), read, gb_per_second)
        record.figure(f"decode at {batch}: tokens a second", measured.tokens_per_second)
        if measured.decoding is None or measured.share_of_bandwidth is None:
            continue
        record.figure(f"decode at {batch}: step", 1e3 * measured.decoding.median_seconds, "ms")
        record.figure(
            f"decode at {batch}: share of bandwidth", measured.share_of_bandwidth, "", SHARES[batch]
        )
        record.series.setdefault("share_of_bandwidth", {})[batch] = measured.share_of_bandwidth
    return lines


def _prefill(ours: Peer, folder: Path, setting: Setting, record: Record) -> None:
    dtype = getattr(torch, ours._step.info.dtype)
    rate = matrix_rate(setting.device, dtype, setting.size(8192, 128))
    record.figure("matrix rate", rate / 1e12, "TFLOP/s")
    prompt = setting.size(1000, 48)
    requested = work("prefill", 8, models.VOCABULARY, WorkSize(prompt, 1, 1, 1))
    operations, best = prompt_operations(folder, prompt) / prompt, 0.0
    for budget in BUDGETS:
        ours.budget = budget
        ours.run(requested)
        rates = [_prefill_rate(ours, requested) for _ in range(setting.size(3, 1))]
        share = median(rates) * operations / rate
        record.figure(f"prefill at {budget} tokens a step", median(rates), f"tokens/s, {share:.2f} of the matrix rate")  # fmt: skip
        record.series.setdefault("prefill_share", {})[budget] = share
        best = max(best, share)
    record.figure("prefill: share of the matrix rate at its best budget", best, "", PREFILL)


def _prefill_rate(ours: Peer, requested: Work) -> float:
    ours.run(requested)
    steps = [step for step in ours.steps if step.prefill_tokens]
    tokens = sum(step.prefill_tokens for step in steps)
    return tokens / sum(step.seconds + step.idle_seconds for step in steps)


def _peer(
    folder: Path, dtype: str, setting: Setting, record: Record, lines: dict[int, Line]
) -> None:
    if setting.on_cuda:
        torch.cuda.empty_cache()
        wait(setting.device)
    else:
        importlib.import_module("psutil")  # by which transformers sizes its cache on a CPU
    peer = transformers_batch.Peer(folder, dtype, str(setting.device))
    record.figure("peer", peer.about)
    for batch in reversed(BATCHES):
        if setting.deadline - time.monotonic() < setting.size(PEER_SECONDS, 0.0):
            record.leave_out(f"generate_batch at {batch}", "no time is left")
            continue
        requested = decode_work(batch, setting)
        times = [peer.run(requested) for _ in range(2)][1:]
        rate = requested.counted / min(filter(None, times))
        record.figure(f"generate_batch at {batch}: tokens a second", rate)
        if batch in lines:
            record.figure(f"decode at {batch}: over generate_batch", lines[batch].tokens_per_second / rate, "", RATIO)  # fmt: skip
