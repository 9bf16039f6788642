"""Two models on one card: both pods load, serve at once and stop; MIG and MPS are reported and never changed."""

import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.bench.fit.traffic import Measured, poisson, send
from tests.gpu import streams
from tests.gpu.llama import decode_work, model_folder
from tests.gpu.modules import BURNER
from tests.gpu.plan import Setting
from tests.gpu.pods import ended, generating, generation_limits, pod, ready
from tests.gpu.record import Record
from tests.gpu.streams import StreamEnd
from tests.support.runtime.process import RuntimeProcess

STREAMS = 16
RATE = 50.0
"""Requests a second to the one-shot pod."""
STOP_SECONDS = 30.0


def run(setting: Setting, record: Record) -> None:
    """Load both, measure each alone and both together."""
    with record.section("MIG and MPS"):
        _partitioning(setting, record)
    module = {
        "factory": BURNER,
        "arguments": {"width": setting.size("2048", "64"), "tokens": "64", "depth": "8", "dtype": setting.size("bfloat16", "float32")},
    }  # fmt: skip
    limits = {
        "generation": 1, "maxBatchSize": 16, "maxQueueDepth": 2048,
        "maxQueueDelayMilliseconds": 5, "discipline": "FirstInFirstOut",
    }  # fmt: skip
    count = setting.size(STREAMS, 4)
    with ended() as pods:
        writer = generating(model_folder(setting), setting, generation_limits(count, count))
        one_shot = pod(setting, {"name": "one-shot", "source": {"type": "Module", "module": module}}, limits)  # fmt: skip
        pods += [writer, one_shot]
        ready(pods)
        record.check("both pods are ready on one device", holds=True)
        seconds = setting.size(2.5, 0.5)
        alone = _streamed(writer, count, setting), _sent(one_shot, seconds)
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(_sent, one_shot, seconds)
            together = _streamed(writer, count, setting)
            answered = sending.result()
        record.figure("streams next to the other model, over alone", together / alone[0])
        for name, ran in (("alone", alone[1]), ("next to the other model", answered)):
            late = sorted(ran.latency)[int(0.99 * len(ran.latency))]
            record.figure(f"one-shot p99 {name}", round(1000 * float(late), 1), "ms")
            record.check(f"one-shot {name}: every answer is right", holds=not ran.lost, detail=f"{len(ran.sent)} answers")  # fmt: skip
        for name, each in (("generation", writer), ("one-shot", one_shot)):
            each.process.send_signal(signal.SIGTERM)
            record.check(f"{name}: the pod exits with 0", holds=each.stopped(STOP_SECONDS) == 0)


def _streamed(writer: RuntimeProcess, count: int, setting: Setting) -> float:
    """Return tokens a second of streams that are all whole."""
    requested = decode_work(count, setting)
    streams.run(writer.client, requested)
    seen, seconds = streams.run(writer.client, requested)
    if {stream.end for stream in seen} != {StreamEnd.WHOLE}:
        raise ValueError(f"streams ended as {sorted({stream.end for stream in seen})}")
    return sum(stream.tokens for stream in seen) / seconds


def _sent(one_shot: RuntimeProcess, seconds: float) -> Measured:
    return send(f"{one_shot.client}/v2/models/one-shot/infer", poisson(RATE, seconds, seed=1))


def _partitioning(setting: Setting, record: Record) -> None:
    """Say whether MIG or MPS is on."""
    if not setting.on_cuda:
        record.leave_out("MIG and MPS", "there is no CUDA device")
        return
    if shutil.which("nvidia-smi") is None:
        record.leave_out("MIG", "there is no nvidia-smi")
    else:
        query = ["nvidia-smi", "--query-gpu=mig.mode.current,compute_mode", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
        record.figure("MIG, compute mode (as found)", done.stdout.strip())
    record.figure("MPS daemons (as found)", _running("nvidia-cuda-mps"))


def _running(name: str) -> int:
    """Return the number of processes of this name, which the kernel keeps up to 15 characters."""
    count = 0
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            count += comm.read_text().strip() == name[:15]
    return count
