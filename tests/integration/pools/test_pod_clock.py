"""A pod whose clock is five minutes off serves all requests and applies its limits, by signed calls or by its ConfigMap."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock_api import names
from tests.integration.pools.fake_pod import NOWHERE, FakePod
from tests.support.kube.api import Api
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

FIVE_MINUTES = 300.0
START_SECONDS = 120.0
ROW = {"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": [1.0] * 8}


class RepeatingClient:
    """A client that repeats a request and counts the answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.good = 0
        self.lost: list[str] = []

    def __enter__(self) -> "RepeatingClient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        body = json.dumps({"inputs": [ROW]}).encode()
        while not self._stop.wait(0.05):
            try:
                with urllib.request.urlopen(self._url, body, timeout=20) as reply:  # noqa: S310 - loopback
                    self.good += reply.status == 200
            except (urllib.error.URLError, OSError) as error:
                self.lost.append(str(error))


@pytest.fixture
def start_pod(api: Api, pool: PoolHandle, tmp_path: Path) -> Iterator[Callable[..., FakePod]]:
    started: list[FakePod] = []

    def begin(address: str, clock_off_seconds: float) -> FakePod:
        pool.apply({**emulated(a=10, c=1), **NOWHERE, "replicas": 1})
        pod = FakePod.of(api, pool, address, tmp_path)
        started.append(pod)
        pod.start(clock_off_seconds)

        def ready() -> bool:
            try:
                url = f"http://{address}:{names.CLUSTER_PORT}{names.PATH_READYZ}"
                with urllib.request.urlopen(url, timeout=5) as reply:
                    return bool(reply.status == 200)
            except OSError:
                return False

        until("the runtime serves", ready, seconds=START_SECONDS)
        pod.write_ready_status()
        return pod

    yield begin
    for pod in started:
        pod.stop()


def replicas(api: Api, pool: PoolHandle) -> int:
    return int(api.request("GET", pool.children["Deployment"])["spec"]["replicas"])


def metric(address: str, name: str) -> float:
    url = f"http://{address}:{names.CLUSTER_PORT}{names.PATH_METRICS}"
    with urllib.request.urlopen(url, timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
    raise AssertionError(f"no sample {name}")


@pytest.mark.timeout(400)
def test_a_clock_that_is_behind_has_no_effect(
    api: Api, pool: PoolHandle, start_pod: Callable[..., FakePod]
) -> None:
    pod = start_pod("127.0.113.1", -FIVE_MINUTES)
    with RepeatingClient(f"http://{pod.address}:{names.CLIENT_PORT}/v2/models/chat/infer") as load:
        pool.await_condition("LimitsApplied", "True", seconds=40)
        before = pod.generation()
        pool.edit({"batching": {"maxQueueDepth": 71}})
        pool.await_acknowledged(after=before, seconds=30)
        time.sleep(10)
    assert (load.lost, replicas(api, pool)) == ([], 1)
    assert load.good > 20


@pytest.mark.timeout(400)
def test_a_clock_that_is_ahead_is_reported_and_the_pod_applies_its_config_map(
    api: Api, pool: PoolHandle, start_pod: Callable[..., FakePod]
) -> None:
    pod = start_pod("127.0.113.2", FIVE_MINUTES)
    with RepeatingClient(f"http://{pod.address}:{names.CLIENT_PORT}/v2/models/chat/infer") as load:
        pool.edit({"batching": {"maxQueueDepth": 72}})
        pool.await_condition("LimitsApplied", "False", "PodsUnreachable", seconds=60)
        assert "correct the node's clock" in pool.condition("LimitsApplied")["message"]
        wanted = pod.generation()
        pod.sync_settings()

        def applied() -> bool:
            return metric(pod.address, names.METRIC_LIMITS_GENERATION) == wanted

        until("it applies its ConfigMap", applied, seconds=20)
        time.sleep(10)
    assert (load.lost, replicas(api, pool)) == ([], 1)
    assert load.good > 20
