"""A leader that was stopped tells no pod anything when it wakes, whatever there would be to tell."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from penstock_api import names
from penstock_api.limits import LimitsUpdate
from tests.bench.scale.pods import LIMITS, METRICS, report
from tests.integration.pools.fake_pod import NOWHERE, FakePod
from tests.integration.pools.test_leading import leads
from tests.support.kube.api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

ADDRESS = "127.0.0.77"
SILENT_SECONDS = 8.0
"""Of the 15 s for which the Lease of a successor that was killed holds."""


class LimitsRecorder(BaseHTTPRequestHandler):
    """Obeys whatever it is told, and keeps it."""

    told: list[LimitsUpdate]
    uid: str

    def do_GET(self) -> None:
        """Tell the metrics, or the state."""
        generation = self.told[-1].generation if self.told else 0
        if self.path == names.PATH_METRICS:
            self._answer(METRICS.format(uid=self.uid, generation=generation))
        else:
            self._answer(self._state())

    def do_PATCH(self) -> None:
        """Take new limits."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append(LimitsUpdate.model_validate_json(body))
        self._answer(self._state())

    def _state(self) -> str:
        if not self.told:
            return report(0, LIMITS)
        return report(self.told[-1].generation, self.told[-1].limits())

    def _answer(self, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def told(api: Api, pool: PoolHandle, tmp_path: Path) -> Iterator[list[LimitsUpdate]]:
    """Make the pool with one pod, which listens here, and hand out all limits that it is told."""
    pool.apply({**emulated(), **NOWHERE, "replicas": 1})
    pod = FakePod.of(api, pool, ADDRESS, tmp_path)
    heard: list[LimitsUpdate] = []
    handler = type("ThisPod", (LimitsRecorder,), {"told": heard, "uid": pod.pod["metadata"]["uid"]})
    server = ThreadingHTTPServer((ADDRESS, names.CLUSTER_PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pod.tell_running()
    yield heard
    server.shutdown()
    server.server_close()


@pytest.mark.timeout(240)
def test_a_leader_that_was_stopped_tells_no_pod_anything_when_it_wakes(
    pool: PoolHandle, operator: OperatorProcess, told: list[LimitsUpdate]
) -> None:
    pool.await_condition("LimitsApplied", "True", seconds=60)
    operator.send(SIGSTOP)
    other = operator.replica("successor")
    try:
        other.start()
        until("the successor leads", lambda: leads(other), seconds=60)
        pool.edit({"batching": {"maxQueueDepth": 79}})
        until("the successor told the pod", lambda: told[-1].max_queue_depth == 79, seconds=30)

        other.stop(SIGKILL)
        pool.edit({"batching": {"maxQueueDepth": 81}})
        number = len(told)
        operator.send(SIGCONT)
        time.sleep(SILENT_SECONDS)
        assert "penstock_operator_leader 0.0" in operator.get("/metrics")
        assert told[number:] == [], "its own Lease was over, the successor's was not"
    finally:
        operator.send(SIGCONT)
        if other.running:
            other.stop(SIGKILL)
    until("it leads again", lambda: leads(operator), seconds=40)
    until("it tells the pod", lambda: told[-1].max_queue_depth == 81, seconds=30)
    assert told[-1].generation > told[number - 1].generation
