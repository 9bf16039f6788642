"""The real runtime as a process on loopback, by default with the emulated accelerator."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock_api.pod_contract import CurveSums, State

START_SECONDS = 300.0
MODEL = "fitted"


@dataclass(frozen=True, slots=True)
class BenchRuntime:
    """URLs of a running runtime."""

    client: str
    cluster: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        """Return the port for requests."""
        return int(self.client.rpartition(":")[2])

    @property
    def infer(self) -> str:
        """Return the URL for requests."""
        return f"{self.client}/v2/models/{MODEL}/infer"

    def curve(self) -> CurveSums:
        """Return the present service-curve sums."""
        return self.state().curve

    def set_cap(self, cap: int, delay_milliseconds: int | None = None) -> None:
        """Set the batch cap, and the batching window if it is given; they apply from the next batch on."""
        state = self.state()
        limits = state.limits.model_dump(by_alias=True, mode="json", exclude_none=True)
        limits |= {"maxBatchSize": cap, "generation": state.generation + 1}
        if delay_milliseconds is not None:
            limits["maxQueueDelayMilliseconds"] = delay_milliseconds
        self._call("PATCH", "/control/v1/limits", json.dumps(limits).encode())

    def state(self) -> State:
        """Return the pod's report."""
        return State.model_validate_json(self._call("GET", "/control/v1/state"))

    def _call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.cluster + path, data=data, method=method)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            body: bytes = answer.read()
            return body


@contextmanager
def running(a_milliseconds: float, c_milliseconds: float, cap: int) -> Iterator[BenchRuntime]:
    """Start the process, wait until it is ready, end it.

    Raises:
        RuntimeError: the process ended or was not ready in time; the message contains its log.
    """
    with launched(_emulated(a_milliseconds, c_milliseconds), _limits(cap)) as pod:
        yield pod


@contextmanager
def launched(
    model: Mapping[str, str], limits: Mapping[str, object], core: int | None = None
) -> Iterator[BenchRuntime]:
    """Start the process with variables of a model, on one core if it is given; wait until it is ready, end it.

    Raises:
        RuntimeError: as `running`.
    """
    with TemporaryDirectory() as folder:
        process = _started(Path(folder), model, limits, core)
        try:
            yield _ready(process, Path(folder) / "log")
        finally:
            process.kill()
            process.wait()


def _emulated(a: float, c: float) -> dict[str, str]:
    arguments = {"a_milliseconds": f"{a:g}", "c_milliseconds": f"{c:g}"}
    module = {"factory": "penstock_runtime.models.emulated:create", "arguments": arguments}
    model = {"name": MODEL, "source": {"type": "Module", "module": module}}
    return {"PENSTOCK_MODEL": json.dumps(model)}


def _limits(cap: int) -> dict[str, object]:
    return {
        "generation": 1, "maxBatchSize": cap, "maxQueueDepth": 2048, "maxQueueDelayMilliseconds": 5,
        "discipline": "FirstInFirstOut",
    }  # fmt: skip


def _started(
    folder: Path, model: Mapping[str, str], limits: Mapping[str, object], core: int | None
) -> subprocess.Popen[bytes]:
    (folder / "limits.json").write_text(json.dumps(limits), encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1",
        "PENSTOCK_SETTINGS_FOLDER": str(folder), "PENSTOCK_TERMINATION_LOG": str(folder / "ended"),
        "PENSTOCK_HOST": "127.0.0.1", "PENSTOCK_CLIENT_PORT": "0", "PENSTOCK_CLUSTER_PORT": "0",
        "PENSTOCK_LOG_FORMAT": "json", "PENSTOCK_INSECURE_CONTROL": "true",
        **model,
    }  # fmt: skip
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pinned, sys.executable, "-m", "penstock_runtime"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, stderr=log, env=environment)


def _ready(process: subprocess.Popen[bytes], log: Path) -> BenchRuntime:
    deadline, listening_runtime = time.monotonic() + START_SECONDS, None
    while time.monotonic() < deadline and process.poll() is None:
        listening_runtime = listening_runtime or _listening(process, log)
        if listening_runtime is not None and _answers(listening_runtime.cluster + "/readyz"):
            return listening_runtime
        time.sleep(0.1)
    raise RuntimeError(f"the runtime is not ready: {log.read_text(encoding='utf-8')}")


def _listening(process: subprocess.Popen[bytes], log: Path) -> BenchRuntime | None:
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{") and (entry := json.loads(line))["message"] == "listening":
            ports = (entry["client_port"], entry["cluster_port"])
            client, cluster = (f"http://127.0.0.1:{port}" for port in ports)
            return BenchRuntime(client, cluster, process)
    return None


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except (urllib.error.HTTPError, OSError):
        return False
