"""Calibration of the machine in the same run, which the bench's ratios refer to."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.bench.http.plan import MAX_BATCH, PEERS

REQUEST_BYTES = 700
ANSWER_BYTES = 500
"""Approximate size of a JSON request of 64 floats, and of its answer."""


def calibration() -> dict[str, Any]:
    """Return processor, memory bandwidth, GEMM rate, a raw echo's and the raw network's time, on one thread."""
    torch.set_num_threads(1)
    return {
        "processor": _cpu("model name"),
        "flags": [f for f in _cpu("flags").split() if f.startswith(("avx", "amx", "fma"))],
        "memory_gigabytes_per_second": round(_memory(), 2),
        "gemm_gigaflops": round(_gemm(), 1),
        "echo_microseconds": round(_echo(), 2),
        "bare_torch_bytes": _bare_torch(),
        "raw_torch_microseconds": {rows: round(_network(rows), 1) for rows in (1, 8, MAX_BATCH)},
    }


def _bare_torch() -> int:
    """Return the memory of a process with only torch and the network."""
    code = (
        "import torch, tiny_mlp\n"
        "torch.set_num_threads(1)\n"
        "with torch.inference_mode(): tiny_mlp.network()(torch.rand(64, 64))\n"
        "print(open('/proc/self/statm').read().split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PEERS, capture_output=True, text=True, check=True
    )
    return int(done.stdout) * os.sysconf("SC_PAGE_SIZE")


def _cpu(name: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return ""


def _memory() -> float:
    source = np.ones(2**27, np.uint8)
    target = np.empty_like(source)
    return 2 * source.nbytes / _best(lambda: np.copyto(target, source), 5) / 1e9


def _gemm() -> float:
    a = torch.rand(1024, 1024)
    return 2 * 1024**3 / _best(lambda: a @ a, 10) / 1e9


def _echo() -> float:
    """Return the socket cost of a request and its answer on both sides, without a server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        served, _ = server.accept()

    def once() -> None:
        client.send(bytes(REQUEST_BYTES))
        served.recv(65536)
        served.send(bytes(ANSWER_BYTES))
        client.recv(65536)

    with client, served:
        return _best(once, 2000) * 1e6


def _network(rows: int) -> float:
    from tests.bench.http.bodies import network

    model, x = network(), torch.rand(rows, 64)
    with torch.inference_mode():
        return _best(lambda: model(x), 300) * 1e6


def _best(work: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
