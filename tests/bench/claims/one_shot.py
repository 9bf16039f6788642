"""One-shot models under each setting: real pods on one core, the load generator on the other, in turns."""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from penstock_runtime.models.encoders.directory import IDS, MASK
from penstock_runtime.serving.limits import FIRST_LIMITS
from tests.bench.claims.claims import ALONE, BATCHED, COMPILED, TUNED, Sample, Setting
from tests.bench.encoders import contenders as encoders
from tests.bench.encoders.subjects import ENCODER
from tests.bench.fit.runtime import BenchRuntime, launched
from tests.bench.http import bodies
from tests.bench.http.plan import BUILD, CONTENDERS, SERVER_CORE, Contender
from tests.bench.http.running import RunningContender, load

FOLDER: Final = BUILD / "claims"
CLIENTS: Final = 64
DELAY: Final = FIRST_LIMITS.max_queue_delay_milliseconds
CAP: Final = FIRST_LIMITS.max_batch_size
SETTLE_SECONDS: Final = 0.5
FEATURES: Final = 8
OBJECTIVE_MILLISECONDS: Final = 1000
LIMITS: Final[dict[str, object]] = FIRST_LIMITS.model_dump(
    by_alias=True, mode="json", exclude_none=True
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its requests, and whether it has other backends than torch."""

    name: str
    contender: Contender
    compiles: bool

    def variables(self, backend: str | None) -> dict[str, str]:
        """Return the environment of a pod."""
        model = json.loads(self.contender.environment["PENSTOCK_MODEL"])
        if backend is not None:
            model["backend"] = backend
        kept = ("PENSTOCK_MODEL_FOLDER", "PYTHONPATH")
        given = {name: value for name, value in self.contender.environment.items() if name in kept}
        cache = {"HOME": os.environ.get("HOME", "/"), "PENSTOCK_PLACEMENT": "Thread"}
        return {**cache, **given, "PENSTOCK_MODEL": json.dumps(model)}

    def requests(self) -> Path:
        """Return a file of requests with their results, for the load generator."""
        file = FOLDER / f"requests-{self.name.replace(' ', '-')}"
        if file.exists():
            return file
        if self.name == "encoder":
            folder = ENCODER.folder(BUILD / "models")
            return encoders.write(ENCODER, self.contender, folder, file)
        if self.name == "network":
            return bodies.write(self.contender, 0, FOLDER).rename(file)
        return _write_emulated(self.contender, file)


def subjects() -> list[Subject]:
    """Return the models: two on the CPU, and an emulated accelerator with the default curve, 40 + 5 b ms."""
    network = next(each for each in CONTENDERS if each.name == "penstock")
    encoder = next(each for each in encoders.contenders(ENCODER, BUILD / "models") if each.name == "penstock")  # fmt: skip
    module = {"factory": "penstock_runtime.models.emulated:create"}
    model = {"name": "emulated", "source": {"type": "Module", "module": module}}
    emulated = replace(
        network,
        path="/v2/models/emulated/infer",
        environment={"PENSTOCK_MODEL": json.dumps(model)},
    )
    return [
        Subject("network", network, compiles=True),
        Subject("encoder", encoder, compiles=True),
        Subject("emulated accelerator", emulated, compiles=False),
    ]


def measure(
    subject: Subject, rounds: int, seconds: float, tuner_minutes: float
) -> Iterator[Setting]:
    """Yield every setting of a model, measured in turns. Raises `RuntimeError` where a pod does not serve."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    requests = subject.requests()
    with ExitStack() as stack:
        eager = stack.enter_context(launched(subject.variables(None), LIMITS, SERVER_CORE))
        best, backend = eager, "Eager"
        if subject.compiles:
            best = stack.enter_context(launched(subject.variables("Auto"), LIMITS, SERVER_CORE))
            backend = f"Auto ({_backend(best)})"
        cap, delay = tuned(subject, tuner_minutes)
        ways = [(ALONE, eager, "Eager", 1, 0), (BATCHED, eager, "Eager", CAP, DELAY)]
        if subject.compiles:
            ways.append((COMPILED, best, backend, CAP, DELAY))
        ways.append((TUNED, best, backend, cap, delay))
        samples: dict[str, list[Sample]] = {name: [] for name, *_ in ways}
        for number in range(rounds):
            for name, pod, _, limit, wait in ways if number % 2 == 0 else reversed(ways):
                pod.set_cap(limit, wait)
                samples[name].append(_sample(subject, pod, requests, seconds))
    for name, _, runs_in, limit, wait in ways:
        detail = f"{runs_in}, cap {limit}, window {wait} ms"
        yield Setting(subject.name, name, detail, tuple(samples[name]))


def tuned(subject: Subject, minutes: float) -> tuple[int, int]:
    """Return the batch cap and the window in ms that the tuner finds for the fastest backend, on the same core.

    Raises:
        RuntimeError: the tuner failed.
    """
    folder = FOLDER / "tune" / subject.name.replace(" ", "-")
    for file in folder.glob("*"):
        file.unlink()
    environment = {
        "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1",
        **subject.variables("Auto" if subject.compiles else None),
    }  # fmt: skip
    argv = [
        sys.executable, "-m", "penstock_tuner", "--minutes", str(minutes), "--clients", str(CLIENTS),
        "--objective-ms", str(OBJECTIVE_MILLISECONDS), "--round-seconds", "1", "--folder", str(folder),
    ]  # fmt: skip
    if subject.name == "encoder":
        argv += ["--request", str(encoder_request(folder.parent))]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
    if not (folder / "result.json").exists():
        raise RuntimeError(f"the tuner failed: {done.stderr[-1000:]} {done.stdout[-500:]}")
    result = json.loads((folder / "result.json").read_text())
    best, *_ = result["front"] or [max(result["tried"], key=lambda each: each["goodput"])]
    return int(best["batch_size"]), int(best["queue_delay_milliseconds"])


def encoder_request(folder: Path) -> Path:
    """Return a file with a request of one row of the encoder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "encoder-request.json"
    row = ENCODER.rows()[0]
    shape = [1, len(row)]
    names = ((IDS, row), (MASK, [1] * len(row)))
    tensors = [{"name": n, "datatype": "INT64", "shape": shape, "data": data} for n, data in names]
    file.write_text(json.dumps({"inputs": tensors}))
    return file


def _backend(pod: BenchRuntime) -> str:
    state = pod.state().model_backend
    return "Eager" if state is None else state.name


def _sample(subject: Subject, pod: BenchRuntime, requests: Path, seconds: float) -> Sample:
    running = RunningContender(subject.contender, pod.port, pod.process, requests)
    load(running, CLIENTS, SETTLE_SECONDS)
    before, began = pod.curve(), time.monotonic()
    figures: dict[str, Any] = load(running, CLIENTS, seconds)
    after, elapsed = pod.curve(), time.monotonic() - began
    batches = max(after.batches - before.batches, 1.0)
    busy = after.seconds - before.seconds
    return Sample(
        requests=int(figures["right"]),
        seconds=float(figures["seconds"]),
        done=float(figures["right"]),
        batch_size=(after.cost_units - before.cost_units) / batches,
        batch_milliseconds=1000 * busy / batches,
        use=min(busy / elapsed, 1.0),
        p50_milliseconds=figures["p50"] / 1000,
        p99_milliseconds=figures["p99"] / 1000,
    )


def _write_emulated(contender: Contender, file: Path) -> Path:
    """Write requests for the emulated accelerator, whose output is 2 x + 1."""
    with file.open("wb") as stream:
        for number in range(CLIENTS):
            row = [float((number + at) % 7) for at in range(FEATURES)]
            tensor = {"name": "INPUT", "datatype": "FP32", "shape": [1, FEATURES], "data": row}
            body = json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()
            head = (
                f"POST {contender.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            wanted = struct.pack(f"<{FEATURES}f", *(2 * value + 1 for value in row))
            request, marker = head.encode() + body, b'"data":'
            stream.write(struct.pack("<I", len(request)) + request)
            stream.write(struct.pack("<I", FEATURES) + wanted)
            stream.write(struct.pack("<II", 0, len(marker)) + marker)
    return file
