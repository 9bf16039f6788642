"""`MeasuredPod`: a runtime process on this machine with the environment of a pool's pod; `Pods` starts them. Does I/O."""

import asyncio
import ctypes
import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from penstock_api import names
from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.types.model import Task
from penstock_tuner.errors import PodFailed, PodRejected
from penstock_tuner.settings import TunedSettings

START_SECONDS = MAX_LOAD_SECONDS + 30.0
"""Time to load the model, in which backends are measured and compiled; a pod that takes longer ends by itself with the remedy."""
STOP_SECONDS = 30.0
POLL_SECONDS = 0.1
LAST_LINES = 5
LOOPBACK = "127.0.0.1"
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_ENGINES = (names.ENV_DATA_PARALLEL, names.ENV_TENSOR_PARALLEL, names.ENV_PIPELINE_PARALLEL)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def usable_cpus(quota: Path = CPU_QUOTA) -> int:
    """Return the CPUs of this machine, or of the container if it is limited to fewer."""
    allowed = len(os.sched_getaffinity(0))
    try:
        limit, period = quota.read_text().split()
        return max(1, min(allowed, int(limit) // int(period)))
    except (OSError, ValueError):  # "max": no limit
        return allowed


def engine_threads(environ: Mapping[str, str], cpus: int) -> int:
    """Return the most threads that an engine of a pod with so many CPUs uses.

    An engine in a process of its own leaves one CPU to the HTTP side; several engines, or ranks, divide the others.
    """
    if environ.get("PENSTOCK_PLACEMENT") == "Thread":
        return cpus
    engines = math.prod(int(environ.get(name, "1")) for name in _ENGINES)
    return max(1, (cpus - 1) // engines)


def pod_environment(environ: Mapping[str, str], settings: TunedSettings) -> dict[str, str]:
    """Return the environment of a pod with the settings that need a new process; it listens on loopback, without tokens."""
    model = json.loads(environ[names.ENV_MODEL])
    generates = model.get("task") == Task.TEXT_GENERATION
    if settings.backend is not None and not generates:
        model["backend"] = settings.backend
    if settings.dtype is not None:
        model["dtype"] = settings.dtype
    changed = {
        names.ENV_MODEL: json.dumps(model, sort_keys=True),
        names.ENV_HOST: LOOPBACK,
        names.ENV_CLUSTER_PORT: "0",
        names.ENV_LOG_FORMAT: "json",
        names.ENV_LOG_LEVEL: "INFO",
        "PENSTOCK_CLIENT_PORT": "0",
        "PENSTOCK_INSECURE_CONTROL": "true",
        "PENSTOCK_SETTINGS_FOLDER": os.devnull,
    }
    if settings.backend is not None and generates:
        changed[names.ENV_COMPUTE_BACKEND] = settings.backend
    if settings.threads is not None:
        changed["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.dtype is not None:
        changed[names.ENV_DTYPE] = settings.dtype
    dropped = (names.ENV_TLS_FOLDER, names.ENV_API_KEYS_FILE)
    kept = {name: value for name, value in environ.items() if name not in dropped}
    return {**kept, **changed}


@dataclass(slots=True)
class MeasuredPod:
    """A running pod, and the limits that it has."""

    process: asyncio.subprocess.Process
    log: Path
    client_url: str
    cluster_url: str
    session: aiohttp.ClientSession = field(repr=False)
    generation: int = 0

    @classmethod
    async def start(
        cls, environ: Mapping[str, str], log: Path, session: aiohttp.ClientSession
    ) -> "MeasuredPod":
        """Start a pod and wait until its model is loaded.

        Raises:
            PodFailed: it ended, or took longer than START_SECONDS.
        """
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "penstock_runtime",
                env=dict(environ),
                stdout=file,
                stderr=file,
                preexec_fn=_end_with_parent,
            )
        pod = cls(process, log, "", "", session)
        try:
            async with asyncio.timeout(START_SECONDS):
                await pod._listening()
                await pod._ready()
        except TimeoutError as error:
            await pod.stop()
            raise PodFailed(
                f"the pod was not ready after {START_SECONDS:.0f} s: use a faster source or a cache: {pod.last_lines()}"
            ) from error
        except BaseException:
            await pod.stop()
            raise
        return pod

    async def model(self) -> str:
        """Return the name of the model."""
        return str((await self._json("GET", names.PATH_STATE))["model"])

    async def metadata(self) -> dict[str, Any]:
        """Return the metadata of the model."""
        async with self.session.get(f"{self.client_url}/v2/models/{await self.model()}") as answer:
            described: dict[str, Any] = await answer.json()
        return described

    async def max_batch_size(self) -> int:
        """Return the greatest batch cap that has an effect in this pod."""
        state = await self._json("GET", names.PATH_STATE)
        return min(int(state["envelope"]["maxBatchSize"]["max"]), int(state["effectiveMax"]))

    async def apply(self, settings: TunedSettings) -> None:
        """Set the live limits.

        Raises:
            PodRejected: the pod rejects them.
            PodFailed: it died.
        """
        self.generation += 1
        limits: dict[str, Any] = {
            "maxBatchSize": settings.batch_size,
            "generation": self.generation,
        }
        if settings.queue_delay_milliseconds is not None:
            limits["maxQueueDelayMilliseconds"] = settings.queue_delay_milliseconds
        if settings.batched_tokens is not None:
            limits["maxBatchedTokens"] = max(settings.batched_tokens, settings.batch_size)
        if settings.discipline is not None:
            limits["discipline"] = settings.discipline
        await self._json("PATCH", names.PATH_LIMITS, json=limits)

    async def check(self) -> None:
        """Raise `PodFailed` if the pod has ended or its engine has died."""
        await self._text("GET", names.PATH_HEALTHZ)

    async def stop(self) -> None:
        """End the process, by force if it does not drain."""
        if self.process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def last_lines(self) -> str:
        """Return the end of the pod's log."""
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-LAST_LINES:])

    async def _listening(self) -> None:
        while True:
            for line in self.log.read_text(errors="replace").splitlines():
                record = json.loads(line) if line.startswith("{") else {}
                if record.get("message") == "listening":
                    self.client_url = f"http://{LOOPBACK}:{record['client_port']}"
                    self.cluster_url = f"http://{LOOPBACK}:{record['cluster_port']}"
                    return
            await self._pause()

    async def _ready(self) -> None:
        while True:
            with suppress(aiohttp.ClientError):
                async with self.session.get(self.cluster_url + names.PATH_READYZ) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            await self._pause()

    async def _pause(self) -> None:
        if self.process.returncode is not None:
            raise PodFailed(f"the pod ended with {self.process.returncode}: {self.last_lines()}")
        await asyncio.sleep(POLL_SECONDS)

    async def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await self._text(method, path, **more))
        return body

    async def _text(self, method: str, path: str, **more: Any) -> str:
        try:
            async with self.session.request(method, self.cluster_url + path, **more) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PodFailed(f"{method} {path}: {error}: {self.last_lines()}") from error
        if answer.status == HTTPStatus.OK:
            return text
        rejected = answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
        failed = PodRejected if rejected else PodFailed
        raise failed(f"{method} {path}: {answer.status} {text}")


def _end_with_parent() -> None:
    """Have the kernel stop the new process when the tuner is killed, which cannot stop it then."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(slots=True)
class Pods:
    """The measured pod, started again where settings need a new process."""

    environ: Mapping[str, str]
    folder: Path
    session: aiohttp.ClientSession
    _pod: MeasuredPod | None = None
    _process: tuple[str | int | None, ...] = ()

    async def running(self, settings: TunedSettings) -> MeasuredPod:
        """Return a pod that has the settings which are fixed at its start. Raises `PodFailed`."""
        pod = self._pod
        if pod is not None and (
            pod.process.returncode is not None or self._process != settings.process
        ):
            await self.stop()
        if self._pod is None:
            environ = pod_environment(self.environ, settings)
            self._pod = await MeasuredPod.start(environ, self.folder / "pod.log", self.session)
            self._process = settings.process
        return self._pod

    async def stop(self) -> None:
        """Stop the pod, so that the next trial starts another."""
        if self._pod is not None:
            await self._pod.stop()
            self._pod = None

    async def __aenter__(self) -> "Pods":
        """Return the pods; none is started yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the pod."""
        await self.stop()
