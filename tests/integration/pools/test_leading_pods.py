"""A suspended leader sends no limits to pods when it resumes, even if new ones are due."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from penstock_api import names
from penstock_api.pod_contract import LimitsUpdate
from tests.bench.scale.pods import LIMITS, METRICS, report
from tests.integration.pools.fake_pod import NOWHERE, FakePod
from tests.integration.pools.test_leading import leads
from tests.support.kube.api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

ADDRESS = "127.0.0.77"
SILENT_SECONDS = 8.0
"""Part of the 15 s for which the Lease of a killed successor remains valid."""


class LimitsRecorder(BaseHTTPRequestHandler):
    """A pod's control port that acknowledges and records all limits."""

    received: list[LimitsUpdate]
    uid: str

    def do_GET(self) -> None:
        """Return the metrics or the state."""
        generation = self.received[-1].generation if self.received else 0
        if self.path == names.PATH_METRICS:
            self._answer(METRICS.format(uid=self.uid, generation=generation))
        else:
            self._answer(self._state())

    def do_PATCH(self) -> None:
        """Record new limits."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(LimitsUpdate.model_validate_json(body))
        self._answer(self._state())

    def _state(self) -> str:
        if not self.received:
            return report(0, LIMITS)
        return report(self.received[-1].generation, self.received[-1].limits())

    def _answer(self, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the access log."""


@pytest.fixture
def received(api: Api, pool: PoolHandle, tmp_path: Path) -> Iterator[list[LimitsUpdate]]:
    """All limits that the pool's only pod receives; it listens on this machine."""
    pool.apply({**emulated(), **NOWHERE, "replicas": 1})
    pod = FakePod.of(api, pool, ADDRESS, tmp_path)
    updates: list[LimitsUpdate] = []
    attributes = {"received": updates, "uid": pod.pod["metadata"]["uid"]}
    handler = type("ThisPod", (LimitsRecorder,), attributes)
    server = ThreadingHTTPServer((ADDRESS, names.CLUSTER_PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pod.write_ready_status()
    yield updates
    server.shutdown()
    server.server_close()


@pytest.mark.timeout(240)
def test_a_suspended_leader_sends_no_limits_when_it_resumes(
    pool: PoolHandle, operator: OperatorProcess, received: list[LimitsUpdate]
) -> None:
    pool.await_condition("LimitsApplied", "True", seconds=60)
    operator.send(SIGSTOP)
    other = operator.replica("successor")
    try:
        other.start()
        until("the successor leads", lambda: leads(other), seconds=60)
        pool.edit({"batching": {"maxQueueDepth": 79}})
        until(
            "the successor's limits arrive",
            lambda: received[-1].max_queue_depth == 79,
            seconds=30,
        )

        other.stop(SIGKILL)
        pool.edit({"batching": {"maxQueueDepth": 81}})
        number = len(received)
        operator.send(SIGCONT)
        time.sleep(SILENT_SECONDS)
        assert "penstock_operator_leader 0.0" in operator.get("/metrics")
        assert received[number:] == [], "its Lease had expired, the successor's had not"
    finally:
        operator.send(SIGCONT)
        if other.running:
            other.stop(SIGKILL)
    until("it leads again", lambda: leads(operator), seconds=40)
    until("its limits arrive", lambda: received[-1].max_queue_depth == 81, seconds=30)
    assert received[-1].generation > received[number - 1].generation
