"""Sends the largest accepted bodies to every route of every kind of pod, and measures the wait of `/healthz`."""

import http.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from penstock_api import names
from penstock_api.types.model import ModelSpec
from penstock_runtime.assembly import make_pod
from penstock_runtime.config import HttpConfig, RuntimeConfig
from penstock_runtime.http.server import ClientServer, ClusterServer
from penstock_runtime.protocols.control.routes import MAX_BODY_BYTES
from penstock_runtime.serving.limits import FIRST_LIMITS
from penstock_runtime.telemetry.metrics import Exposition
from tests.stalls import shapes
from tests.stalls.probe import LongestWaits, Probe
from tests.stalls.shapes import RequestShape
from tests.support.encoders.directories import write
from tests.support.runtime.process import RuntimeProcess, start
from tests.unit.runtime.protocols.openai.served import save_tiny_model

_MODULE: Final = {
    "name": "pod",
    "source": {"type": "Module", "module": {"factory": "tests.stalls.wide:create"}},
}
SIZE: Final = HttpConfig().max_body_bytes
"""The largest body of a pod with default settings."""
ROOT: Final = str(Path(__file__).parents[2])
Shapes = Callable[[int], Sequence[RequestShape]]
ROUTES: Final[dict[str, Shapes]] = {
    "POST /v1/completions": shapes.completions,
    "POST /v1/chat/completions": shapes.chats,
    "POST /tokenize": lambda size: shapes.completions(size)[:1] + shapes.chats(size),
    "POST /detokenize": shapes.ids,
    "POST /v1/embeddings": shapes.embeddings,
    f"POST {names.PATH_HANDOVER}": shapes.continuations,
    "POST /v2/models/{model}/generate": shapes.generate,
    "POST /v2/models/{model}/generate_stream": shapes.generate,
    "POST /v2/models/{model}/versions/{version}/generate": shapes.generate,
    "POST /v2/models/{model}/versions/{version}/generate_stream": shapes.generate,
}
"""Bodies by route, except `infer`, which depends on the model."""
UNREAD: Final = frozenset(
    {
        "POST /v2/repository/index",
        "POST /v2/repository/models/{model}/load",
        "POST /v2/repository/models/{model}/unload",
    }
)
"""Routes that do not read a body, like those of GET."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pool: its model, and the bodies of `infer`."""

    name: str
    model: dict[str, Any]
    infer: Shapes

    def config(self) -> RuntimeConfig:
        """Return the configuration of a pod."""
        return RuntimeConfig(model=ModelSpec.model_validate(self.model))

    def routes(self) -> dict[str, bool]:
        """Return each route of both ports, and whether it is the cluster's."""
        pod = make_pod(self.config(), FIRST_LIMITS)
        exposition = Exposition(pod)
        apps = (
            (ClientServer(pod, exposition).app(), False),
            (ClusterServer(pod, exposition).app(), True),
        )
        routes: dict[str, bool] = {}
        for app, cluster in apps:
            for route in app.router.routes():
                if route.method != "HEAD" and route.resource is not None:
                    routes[f"{route.method} {route.resource.canonical}"] = cluster
        return routes

    def shapes(self, route: str, size: int) -> Sequence[RequestShape]:
        """Return the bodies of a route; KeyError: there is none for it."""
        if route.startswith("GET ") or route in UNREAD:
            return [RequestShape("nothing", b"")]
        if route.startswith("PATCH "):
            return shapes.hostile(MAX_BODY_BYTES)
        bodies = self.infer if route.endswith("/infer") else ROUTES[route]
        return [*shapes.hostile(size), *bodies(size)]


def _folder(task: str) -> dict[str, Any]:
    claim = {"claimName": "models", "path": "."}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return {"name": "pod", "task": task, "source": source}


ONE_SHOT: Final = Kind("one-shot", _MODULE, shapes.tensor)
ENCODER: Final = Kind("encoder", _folder("Embedding"), shapes.texts)
GENERATION: Final = Kind("generation", _folder("TextGeneration"), shapes.tensor)
KINDS: Final = (ONE_SHOT, ENCODER, GENERATION)


@dataclass(frozen=True, slots=True)
class Wait:
    """Measurements of one request."""

    route: str
    shape: str
    bytes: int
    status: int
    over_limit: bool
    """Whether the body was rejected for the number of its parts, before it was decoded."""
    longest: LongestWaits
    """Of `/healthz`."""
    memory: int
    """Peak growth of the pod's memory in bytes."""


class Walked:
    """A serving pod and its health probe."""

    def __init__(self, kind: Kind, runtime: RuntimeProcess, probe: Probe) -> None:
        self.kind = kind
        self._runtime = runtime
        self._probe = probe

    def idle_seconds(self, requests: int = 20) -> float:
        """Return the longest wait during small requests."""
        self._probe.longest()
        for _ in range(requests):
            self._send(self._runtime.client, "GET", "/v2", RequestShape("nothing", b""))
        return self._probe.longest().seconds

    def send(self, route: str, shape: RequestShape, *, cluster: bool) -> Wait:
        """Send one request and return its measurements."""
        method, path = route.split(" ")
        path = path.replace("{model}", "pod").replace("{version}", "1")
        before = self._reset_peak()
        self._probe.longest()
        status, answer = self._send(
            self._runtime.cluster if cluster else self._runtime.client, method, path, shape
        )
        return Wait(
            route,
            shape.name,
            len(shape.body),
            status,
            b"times the limit for one body" in answer,
            self._probe.longest(),
            max(0, self._status("VmHWM") - before),
        )

    def _send(self, url: str, method: str, path: str, shape: RequestShape) -> tuple[int, bytes]:
        at = urlsplit(url)
        client = http.client.HTTPConnection(at.hostname or "", at.port, timeout=120)
        try:
            headers = {
                "X-Request-Timeout-Ms": "60000",
                **self._runtime.token(generation=1),
                **shape.headers,
            }
            with suppress(BrokenPipeError, ConnectionResetError):  # rejected by its head
                client.request(method, path, shape.body or None, headers)
            answer = client.getresponse()
            return answer.status, answer.read()
        except ConnectionResetError:
            return 0, b""
        finally:
            client.close()

    def _reset_peak(self) -> int:
        Path(f"/proc/{self._runtime.process.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self._runtime.process.pid}/status").read_text()
        return (
            int(next(line for line in text.splitlines() if line.startswith(name)).split()[1]) * 1024
        )


@contextmanager
def walking(kind: Kind, folder: Path) -> Iterator[Walked]:
    """Run a pod of `kind` with a health probe inside the context."""
    with (
        running(kind, folder) as runtime,
        Probe(int(runtime.cluster.rsplit(":", 1)[1]), runtime.process.pid) as probe,
    ):
        yield Walked(kind, runtime, probe)


@contextmanager
def running(kind: Kind, folder: Path) -> Iterator[RuntimeProcess]:
    """Run a pod of `kind` inside the context."""
    if kind is ENCODER:
        write(folder)
    if kind is GENERATION:
        save_tiny_model(folder)
    more: dict[str, Any] = {
        "PENSTOCK_MODEL_FOLDER": str(folder),
        "PENSTOCK_CACHE_BYTES": str(2**22),
        "PENSTOCK_DTYPE": "float32",
    }
    runtime = start(folder, model=kind.model, PYTHONPATH=ROOT, **more)
    try:
        runtime.ready()
        yield runtime
    finally:
        runtime.kill()
