"""A proxy between the operator and the real Prometheus that replaces values with NaN on request."""

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
    """Forwards every query to `upstream`, and returns range results with or without their values."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("0.0.0.0", 0), NanHandler)  # noqa: S104 - pods query it
        self.upstream = upstream
        self.series_answers = 0
        """Number of answers with at least one series."""
        self.spoiled = 0
        """Number of answers in which every value was NaN."""
        self._spoils = threading.Event()

    @contextmanager
    def spoiling(self) -> Iterator[None]:
        """Replace every value with NaN, except in the series that identifies a pod."""
        self._spoils.set()
        try:
            yield
        finally:
            self._spoils.clear()

    def rewrite(self, answer: bytes) -> bytes:
        """Count an answer and return it, with NaN values while spoiling."""
        payload: dict[str, Any] = json.loads(answer)
        data = payload.get("data", {})
        self.series_answers += bool(data.get("result"))
        if not self._spoils.is_set() or data.get("resultType") != "matrix":
            return answer
        for series in data["result"]:
            if series["metric"].get("__name__") != names.METRIC_POD_INFO:
                series["values"] = [[time, "NaN"] for time, _ in series["values"]]
        self.spoiled += bool(data["result"])
        return json.dumps(payload).encode()


class NanHandler(BaseHTTPRequestHandler):
    """Handles one query."""

    server: NanPrometheus
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Forward the query upstream."""
        self._forward(None)

    def do_POST(self) -> None:
        """Forward the query upstream with its body."""
        self._forward(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _forward(self, body: bytes | None) -> None:
        kind = self.headers.get("Content-Type", "application/x-www-form-urlencoded")
        query = urllib.request.Request(  # noqa: S310 - the test's own Prometheus
            self.server.upstream + self.path, body, {"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(query, timeout=10) as reply:  # noqa: S310 - as above
                status, answer = reply.status, self.server.rewrite(reply.read())
        except HTTPError as error:
            status, answer = error.code, error.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Suppress the access log."""


@contextmanager
def nan_prometheus(upstream: str) -> Iterator[NanPrometheus]:
    """Serve a proxy of `upstream` on a port of this machine."""
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
    """Make the operator query this server for the pools of one namespace; a pod reaches it at the only node's address."""
    (node,) = api.list("/api/v1/nodes")
    addresses = {address["type"]: address["address"] for address in node["status"]["addresses"]}
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
