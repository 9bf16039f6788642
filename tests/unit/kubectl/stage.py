"""A fake API server and Prometheus on loopback, with one pool, for tests of the plugin."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
HEAD = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePool"}
MODULE = {"source": {"type": "Module", "module": {"factory": "models:create"}}}
PROMETHEUS = "http://prometheus.monitoring.svc:9090"
POLICIES = "/apis/penstock.dev/v1alpha1/inferencepolicies"
NAMESPACE = "/api/v1/namespaces/team-a"
BATCHES = "/api/v1/namespaces/team-a/services/penstock-batches:8091/proxy/status"
PROXY = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"


def pool(**spec: Any) -> Object:
    """Return a pool that has decided, as `kubectl get -o json` prints it."""
    wanted = {
        "model": MODULE,
        "replicas": 2,
        "accelerator": {"resourceName": "nvidia.com/gpu", "count": 1},
        "objectives": [
            {"metric": "RequestLatency", "percentile": "P99", "milliseconds": 1000},
        ],
        "scaling": {"mode": "Auto", "algorithm": "CapacityAtObjective", "maxReplicas": 6},
        **spec,
    }
    return {
        **HEAD,
        "metadata": {
            "name": "chat",
            "namespace": "team-a",
            "uid": "uid-chat",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-11-21T10:00:00Z",
        },
        "spec": wanted,
        "status": STATUS,
    }


STATUS: Object = {
    "observedGeneration": 3,
    "replicas": 3,
    "readyReplicas": 2,
    "desiredReplicas": 3,
    "batch": {"cap": 24, "recommendedCap": 32, "generation": 12, "acknowledgedPods": 2},
    "accelerators": [{"resourceName": "nvidia.com/gpu", "used": 6}],
    "policies": [{"name": "prod", "generation": 4}],
    "bounded": [
        {"field": "spec.scaling.maxReplicas", "asked": "6", "granted": "3", "policy": "prod"}
    ],
    "candidate": {
        "policy": "prod",
        "generation": 4,
        "cap": 32,
        "replicas": 2,
        "actualReplicas": 3,
        "replicasTerm": "Forecast",
        "replicaHours": "1.50",
        "actualReplicaHours": "2.25",
    },
    "conditions": [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "words",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-11-21T10:05:00Z",
        }
        for kind, status, reason in (
            ("Ready", "True", "Serving"),
            ("Progressing", "False", "Settled"),
            ("MetricsAvailable", "False", "NoSignals"),
        )
    ],
    "scaling": {
        "source": "Prometheus",
        "signalAgeSeconds": "2.1",
        "rowsPerSecond": "130.5",
        "forecastRowsPerSecond": "161.0",
        "waiting": "4.0",
        "imbalance": "1.12",
        "batchWork": {
            "linesLeft": 5000,
            "linesPerSecond": "20.50",
            "replicas": "0.34",
            "addedReplicas": 1,
        },
        "curve": {
            "interceptMilliseconds": "100.00",
            "millisecondsPerRow": "10.000",
            "rSquared": "0.981",
            "meanRows": "14.0",
            "largestRows": "30.1",
        },
        "plannedCap": 24,
        "rowsPerSecondPerReplica": "70.6",
        "effectiveUtilizationPercent": "92.4",
        "utilizationTargetPercent": "80.0",
        "predictedP99Milliseconds": "1210.0",
        "onTimePercent": "98.7",
        "startupP90Seconds": "42.0",
        "replicasTerm": "MaxReplicas",
        "capTerm": "Objective",
        "boundBy": "Policy",
    },
    "lastDecision": {
        "time": "2026-11-21T10:20:00Z",
        "algorithm": "CapacityAtObjective",
        "cap": 24,
        "replicas": 3,
        "capTerm": "Objective",
        "replicasTerm": "MaxReplicas",
        "acted": "Acted",
        "boundBy": "Policy",
        "asked": [
            {"term": "Forecast", "replicas": "3.40"},
            {"term": "HighPercent", "replicas": "2.20"},
        ],
        "alternatives": [
            {
                "replicas": 2,
                "cap": 24,
                "accelerators": 4,
                "utilizationPercent": "114.0",
                "verdict": "Saturated",
            },
            {
                "replicas": 3,
                "cap": 24,
                "accelerators": 6,
                "utilizationPercent": "76.0",
                "predictedP99Milliseconds": "905.0",
                "verdict": "MeetsObjective",
            },
        ],
        "message": "cap 24: two batches of 340 ms fit 1000 ms; replicas 3: 161.0 rows/s forecast in 45 s",
    },
}


def policy(name: str = "prod", **spec: Any) -> Object:
    """Return a policy over everything."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", "generation": 4}
    return {**HEAD, "kind": "InferencePolicy", "metadata": metadata, "spec": spec}


EVENTS: list[Object] = [
    {
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-21T10:{minute:02}:00Z",
        "metadata": {"creationTimestamp": "2026-11-21T10:00:00Z"},
    }
    for minute, kind, reason, message in (
        (10, "Normal", "ScaledUp", "Replicas 1 -> 2: demand."),
        (20, "Normal", "ScaledUp", "Replicas 2 -> 3: 161.0 rows/s forecast in 45 s."),
        (15, "Warning", "ReplicasIgnored", "spec.replicas 9 is ignored."),
    )
]


class Stage:
    """Serves objects of an API server, and rates of a Prometheus."""

    def __init__(self, pool: Object, policies: list[Object], rates: list[float]) -> None:
        self.rates = rates
        self.queries: list[str] = []
        root = "/apis/penstock.dev/v1alpha1"
        space = {"metadata": {"name": "team-a", "labels": {"tier": "prod"}}}
        self.logs: dict[str, str] = {}
        self.failing: dict[str, int] = {}
        """Statuses of GETs that fail, by path."""
        self.objects: dict[str, Object] = {
            f"{root}/namespaces/team-a/inferencepools/chat": pool,
            f"{root}/inferencepolicies": {"items": policies},
            "/api/v1/namespaces/team-a": space,
            "/api/v1/namespaces/team-a/events": {"items": EVENTS},
        }

    def write(self, method: str, target: str, body: Object | None) -> tuple[int, Object]:
        """Create, apply or delete an object; return status and body."""
        path = urlsplit(target).path
        if body is None:
            return (200, self.objects.pop(path)) if path in self.objects else (404, {})
        created = method == "POST"
        self.objects[f"{path}/{body['metadata']['name']}" if created else path] = body
        return 201 if created else 200, body

    def answer(self, target: str) -> tuple[int, Object]:
        """Return status and body of a GET."""
        where = urlsplit(target)
        if where.path in self.failing:
            return self.failing[where.path], {"message": f"status {self.failing[where.path]}"}
        if where.path.startswith(PROXY):
            parameters = {key: values[0] for key, values in parse_qs(where.query).items()}
            self.queries.append(parameters["query"])
            return 200, {"status": "success", "data": {"result": self._series(parameters)}}
        stored = self.objects.get(where.path)
        return (200, stored) if stored is not None else (404, {"message": "not found"})

    def _series(self, parameters: dict[str, str]) -> list[Object]:
        if "start" not in parameters or "rows_received" not in parameters["query"]:
            return []
        start, step = float(parameters["start"]), float(parameters["step"])
        values = [[start + index * step, f"{rate}"] for index, rate in enumerate(self.rates)]
        return [{"metric": {}, "values": values}]


@contextmanager
def kubeconfig(stage: Stage, folder: Path) -> Iterator[Path]:
    """Serve the stage, and yield a kubeconfig that leads to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = urlsplit(self.path)
            log = None if where.path in stage.failing else stage.logs.get(where.path)
            if log is not None and "container=runtime" not in where.query:
                return self.respond(400, {"message": "a container name must be specified"})
            return self.respond(*((200, log) if log is not None else stage.answer(self.path)))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            self.respond(*stage.write(self.command, self.path, body))

        do_PATCH = do_DELETE = do_POST  # noqa: N815

        def respond(self, status: int, body: Object | str) -> None:
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    where = f"http://127.0.0.1:{server.server_port}"
    file = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "team-a"}}],
        "clusters": [{"name": "here", "cluster": {"server": where}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }  # fmt: skip
    file.write_text(json.dumps(config))
    try:
        yield file
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
