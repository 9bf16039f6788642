"""A Prometheus between the operator and the real one, that says NaN where it is told to."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError

from penstock_api import names
from tests.support.kube.api import Api


class NanPrometheus(ThreadingHTTPServer):
    """Passes every question on to `upstream`, and answers of ranges back, with or without their values."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("0.0.0.0", 0), NanHandler)  # noqa: S104 - pods ask it
        self.upstream = upstream
        self.series_answers = 0
        """Answers that told a series."""
        self.spoiled = 0
        """Answers in which every value was NaN."""
        self._spoils = threading.Event()

    @contextmanager
    def spoiling(self) -> Iterator[None]:
        """Say NaN for every value; who a pod is stays known."""
        self._spoils.set()
        try:
            yield
        finally:
            self._spoils.clear()

    def told(self, answer: bytes) -> bytes:
        """Return an answer as it is passed on."""
        said: dict[str, Any] = json.loads(answer)
        found = said.get("data", {})
        self.series_answers += bool(found.get("result"))
        if not self._spoils.is_set() or found.get("resultType") != "matrix":
            return answer
        for series in found["result"]:
            if series["metric"].get("__name__") != names.METRIC_POD_INFO:
                series["values"] = [[time, "NaN"] for time, _ in series["values"]]
        self.spoiled += bool(found["result"])
        return json.dumps(said).encode()


class NanHandler(BaseHTTPRequestHandler):
    """One question."""

    server: NanPrometheus
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Ask upstream the same."""
        self._pass_on(None)

    def do_POST(self) -> None:
        """Ask upstream the same, with its body."""
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _pass_on(self, body: bytes | None) -> None:
        kind = self.headers.get("Content-Type", "application/x-www-form-urlencoded")
        asked = urllib.request.Request(  # noqa: S310 - the test's own Prometheus
            self.server.upstream + self.path, body, {"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(asked, timeout=10) as reply:  # noqa: S310 - as above
                status, answer = reply.status, self.server.told(reply.read())
        except HTTPError as error:
            status, answer = error.code, error.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def nan_prometheus(upstream: str) -> Iterator[NanPrometheus]:
    """Serve on a port of this machine."""
    server = NanPrometheus(upstream)
    thread = threading.Thread(target=server.serve_forever, name="nan")
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def queried_for_namespace(api: Api, namespace: str, server: NanPrometheus) -> Iterator[None]:
    """Let the operator ask this server about the pools of one namespace; a pod reaches it at the only node's address."""
    (node,) = api.list("/api/v1/nodes")
    addresses = {one["type"]: one["address"] for one in node["status"]["addresses"]}
    url = f"http://{addresses['InternalIP']}:{server.server_port}"
    path = "/apis/penstock.dev/v1alpha1/inferencepolicies/e2e-nan"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    spec = {"namespaceSelector": selector, "metrics": {"prometheus": {"url": url}}}
    api.apply({**head, "metadata": {"name": "e2e-nan"}, "spec": spec})
    try:
        yield
    finally:
        api.delete(path)
