"""Streams over HTTP: a runtime process, and a client that reads every token as it arrives."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from time import perf_counter as now
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

import uvloop
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from penstock_runtime.engine.placement import Placement
from tests.bench.generation.workload import Work

START_SECONDS = 300.0
KEPT_BYTES = 4096
USAGE = re.compile(rb'"completion_tokens": ?(\d+)')
LIMITS = {
    "generation": 1,
    "maxBatchSize": 32,
    "maxQueueDepth": 4096,
    "maxQueueDelayMilliseconds": 0,
    "discipline": "Priority",
    "preemption": "LowerPriority",
    "maxBatchedTokens": 512,
}


def give_tokenizer(folder: Path, vocabulary: int) -> None:
    """Write a tokenizer whose words are numbers, with the cost of a usual one; a server requires a tokenizer."""
    if not (folder / "tokenizer.json").exists():
        words = {f"w{n} ": n for n in range(vocabulary)}
        Tokenizer(WordLevel(words, unk_token="w0 ")).save(str(folder / "tokenizer.json"))  # noqa: S106 - no password


class HttpServer:
    """One `python -m penstock_runtime` with a generative model."""

    def __init__(self, folder: Path, scratch: Path, dtype: str, placement: Placement) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "limits.json").write_text(json.dumps(LIMITS))
        source = {
            "type": "PersistentVolumeClaim",
            "persistentVolumeClaim": {"claimName": "bench", "path": "."},
        }
        model = {"name": "bench", "task": "TextGeneration", "source": source}
        ours = {
            "PENSTOCK_MODEL": json.dumps(model),
            "PENSTOCK_MODEL_FOLDER": str(folder),
            "PENSTOCK_SETTINGS_FOLDER": str(scratch),
            "PENSTOCK_TERMINATION_LOG": str(scratch / "termination-log"),
            "PENSTOCK_HOST": "127.0.0.1",
            "PENSTOCK_CLIENT_PORT": "0",
            "PENSTOCK_CLUSTER_PORT": "0",
            "PENSTOCK_LOG_FORMAT": "json",
            "PENSTOCK_DTYPE": dtype,
            "PENSTOCK_PLACEMENT": placement,
        }
        self._log = scratch / "log"
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock_runtime"],
                stderr=stream,
                env={**os.environ, "OMP_NUM_THREADS": "1", **ours},
            )
        self.url = f"http://127.0.0.1:{self._wait_for('listening')['client_port']}"
        self._wait_for("the model is warm")

    def _wait_for(self, message: str) -> dict[str, Any]:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            for line in self._log.read_text().splitlines():
                if line.startswith("{") and json.loads(line)["message"] == message:
                    return dict(json.loads(line))
            time.sleep(0.05)
        self.close()
        raise RuntimeError(f"{message!r} was not logged: {self._log.read_text()[-2000:]}")

    def cpu_seconds(self) -> list[float]:
        """Return the CPU time of its process, and of the engine's process if it is separate."""
        pid = self._process.pid
        theirs = Path(f"/proc/{pid}/task").glob("*/children")
        pids = [pid, *(int(child) for file in theirs for child in file.read_text().split())]
        return [_cpu_seconds(each) for each in pids]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process including its threads (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(url: str, work: Work) -> float:
    """Return the seconds from the first request to the last token of the last stream."""
    return uvloop.run(_run(urlsplit(url), work))


async def _run(url: SplitResult, work: Work) -> float:
    began = now()
    counts = await asyncio.gather(
        *(_tokens(url, request.prompt, request.answer) for request in work.requests)
    )
    seconds = now() - began
    if sum(counts) != sum(request.answer for request in work.requests):
        raise RuntimeError(f"{sum(counts)} tokens were counted by the server")
    return seconds


async def _tokens(url: SplitResult, prompt: tuple[int, ...], answer: int) -> int:
    reader = Reader(completion_request(url, "bench", prompt, answer))
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: reader, url.hostname or "", url.port or 80)
    return await reader.tokens


class Reader(asyncio.Protocol):
    """Reads one stream to its end at low cost, because it shares a core with the measured server."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._last = b""
        """The end of the received data; the usage is in the last event."""
        self.tokens: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Number of completion tokens in the server's usage."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Store the end of the data."""
        self._last = (self._last + data)[-KEPT_BYTES:]

    def connection_lost(self, _: Exception | None) -> None:
        """Read the usage and resolve `tokens`."""
        usage = USAGE.search(self._last)
        if usage is None:
            self.tokens.set_exception(RuntimeError(f"no usage: {self._last!r}"))
        else:
            self.tokens.set_result(int(usage[1]))


def completion_request(url: SplitResult, model: str, prompt: tuple[int, ...], answer: int) -> bytes:
    """Return the bytes of one streamed completion of exactly `answer` tokens, greedy, on a connection of its own."""
    body = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": answer,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    encoded = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(encoded)}\r\n\r\n"
    )
    return head.encode() + encoded
