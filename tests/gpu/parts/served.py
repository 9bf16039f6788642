"""The pod as served: HTTP streams in both placements, overload, SIGTERM, a killed engine, memory that runs out."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.gpu import streams
from tests.gpu.exhausted_pod import TRIGGER
from tests.gpu.llama import answers, decode_work, model_folder
from tests.gpu.plan import Setting
from tests.gpu.pods import ended, generating, generation_limits, ready
from tests.gpu.record import Record
from tests.gpu.streams import Stream, StreamEnd
from tests.support.runtime.process import RuntimeProcess, engines

STREAMS = 64
SHARE = 0.95
"""Target of the rate over HTTP relative to the engine's alone."""
GOODPUT = 0.9
"""Target of the rate of whole answers under three times the load, relative to the rate without overload."""
STOP_SECONDS = 60.0
"""Limit of a stop, beyond which the pod counts as hung."""


def run(setting: Setting, record: Record) -> None:
    """Start all pods at once, then run the scenes one after the other."""
    folder, count = model_folder(setting), setting.size(STREAMS, 8)
    trigger = setting.folder.resolve() / "run-out-of-memory"
    limits = generation_limits(count, count)
    with ended() as pods:
        process = generating(folder, setting, limits, PENSTOCK_PLACEMENT="Process")
        thread = generating(
            folder, setting, limits, "tests.gpu.exhausted_pod",
            PENSTOCK_PLACEMENT="Thread", **{TRIGGER: str(trigger)},
        )  # fmt: skip
        pods += [process, thread]
        began = time.monotonic()
        ready(pods)
        record.figure("two pods at once, from start to ready", time.monotonic() - began, "s")
        peak = 0.0
        for name, pod in (("Process", process), ("Thread", thread)):
            with record.section(f"{count} streams, {name}"):
                peak = max(peak, _streams(name, pod, count, setting, record))
        with record.section("overload"):
            _overload(process, count, peak, setting, record)
        with record.section("memory runs out in mid-stream"):
            _memory(thread, trigger, count, setting, record)
        with record.section("SIGTERM under load"):
            _stopped(thread, count, setting, record)
        with record.section("the engine process is killed"):
            _killed(process, count, setting, record)


def _streams(name: str, pod: RuntimeProcess, count: int, setting: Setting, record: Record) -> float:
    """Measure streams that all arrive at once; return tokens a second."""
    requested = decode_work(count, setting)
    streams.run(pod.client, requested)  # records the shapes of its steps
    best, seconds = min((streams.run(pod.client, requested) for _ in range(setting.size(3, 1))), key=lambda ran: ran[1])  # fmt: skip
    record.check(f"{name}: every stream is whole", holds=_all(best, StreamEnd.WHOLE), detail=_counted(best))  # fmt: skip
    rate = sum(stream.tokens for stream in best) / seconds
    record.figure(f"{name}, {count} streams: tokens a second", rate)
    for what, values in (("TTFT", [stream.first for stream in best]), ("TPOT", [stream.per_token for stream in best])):  # fmt: skip
        middle, late = (1000 * float(np.percentile(values, q)) for q in (50, 99))
        record.figure(f"{name}, {count} streams: {what}", round(middle, 2), f"ms, p99 {late:.2f}")
        record.series.setdefault(what, {})[name] = values
    alone = _in_process(setting.folder, count)
    if alone is None:
        record.leave_out(f"{name}: share of in-process", "part `generation` has no rate")
    else:
        record.figure(f"{name}: share of in-process", rate / alone, "", SHARE)
    return rate


def _in_process(folder: Path, count: int) -> float | None:
    """Return the engine's own rate on the same work, which part `generation` measured."""
    file = folder / "generation.json"
    if not file.exists():
        return None
    wanted = f"decode at {count}: tokens a second"
    rates = [figure["value"] for figure in json.loads(file.read_text())["figures"] if figure["name"] == wanted]  # fmt: skip
    return float(rates[0]) if rates else None


def _overload(
    pod: RuntimeProcess, count: int, peak: float, setting: Setting, record: Record
) -> None:
    """Let three times as many clients send as the pod runs and queues; each sends again when it is answered."""
    seconds = setting.size(6.0, 0.5)
    clients = answers(3 * 2 * count, setting.size(64, 4))
    began = time.monotonic()
    all_streams = streams.overload(pod.client, clients, seconds)
    took = time.monotonic() - began
    whole = [stream for stream in all_streams if stream.end is StreamEnd.WHOLE]
    rejected = [stream for stream in all_streams if stream.end is StreamEnd.REJECTED]
    detail = _counted(all_streams)
    record.check("overload: every stream is whole or rejected with 429", holds=len(whole) + len(rejected) == len(all_streams) and {stream.status for stream in rejected} <= {429}, detail=detail)  # fmt: skip
    record.check("overload: some were rejected", holds=bool(rejected), detail=detail)
    goodput = sum(stream.tokens for stream in whole) / took
    if peak:
        record.figure("overload: goodput over peak", goodput / peak, "", GOODPUT)
    if rejected:
        late = 1000 * float(np.percentile([stream.last for stream in rejected], 99))
        record.figure("overload: p99 of a rejection", round(late, 1), "ms")
    record.check("overload: the pod is ready afterwards", holds=pod.get("/readyz")[0] == 200)


def _memory(
    pod: RuntimeProcess, trigger: Path, count: int, setting: Setting, record: Record
) -> None:
    """Let one step run out of memory while streams are running."""
    requested = answers(count, setting.size(256, 24))
    seen, _ = streams.run(pod.client, requested, on_first=trigger.touch)
    detail = _counted(seen)
    failed = any(stream.end is StreamEnd.ERROR for stream in seen)
    ends = {stream.end for stream in seen}
    record.check("out of memory: streams of the step end with an error, and no other way", holds=failed and ends <= {StreamEnd.ERROR, StreamEnd.WHOLE}, detail=detail)  # fmt: skip
    after, _ = streams.run(pod.client, decode_work(count, setting))
    record.check("out of memory: the pod serves on", holds=_all(after, StreamEnd.WHOLE), detail=_counted(after))  # fmt: skip


def _stopped(pod: RuntimeProcess, count: int, setting: Setting, record: Record) -> None:
    """Stop the pod while streams are running; all must be whole."""
    requested = answers(count, setting.size(256, 16))
    began = list[float]()

    def stop() -> None:
        began.append(time.monotonic())
        pod.process.send_signal(signal.SIGTERM)

    seen, _ = streams.run(pod.client, requested, on_first=stop)
    code = pod.stopped(STOP_SECONDS)
    record.check("SIGTERM: every running stream is whole", holds=_all(seen, StreamEnd.WHOLE), detail=_counted(seen))  # fmt: skip
    record.check("SIGTERM: the pod exits with 0", holds=code == 0, detail=f"{code}")
    record.figure("SIGTERM: until it exited", time.monotonic() - began[0], "s")


def _killed(pod: RuntimeProcess, count: int, setting: Setting, record: Record) -> None:
    """Kill the engine's process while streams are running; each must end with an error, and the pod with 1."""
    (engine,) = engines(pod.process.pid)
    requested = answers(count, setting.size(900, 200))
    began = list[float]()

    def kill() -> None:
        began.append(time.monotonic())
        os.kill(engine, signal.SIGKILL)

    seen, _ = streams.run(pod.client, requested, on_first=kill)
    took = time.monotonic() - began[0]
    ends = {stream.end for stream in seen}
    record.check("engine killed: streams end with an error event", holds=StreamEnd.ERROR in ends and ends <= {StreamEnd.ERROR, StreamEnd.WHOLE}, detail=_counted(seen))  # fmt: skip
    record.figure("engine killed: until the last stream ended", took, "s")
    code, message = pod.stopped(STOP_SECONDS), (pod.folder / "termination-log").read_text()
    record.check("engine killed: the pod exits with 1 and says why", holds=code == 1 and message.startswith("EngineDied"), detail=message)  # fmt: skip


def _all(seen: list[Stream], end: StreamEnd) -> bool:
    return bool(seen) and {stream.end for stream in seen} == {end}


def _counted(seen: list[Stream]) -> str:
    counts = Counter(stream.end for stream in seen)
    return ", ".join(f"{count} {end}" for end, count in sorted(counts.items()))
