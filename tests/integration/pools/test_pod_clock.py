"""A pod whose clock is five minutes off: it serves everybody, and obeys, by tokens or by its ConfigMap."""

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
    """One client that asks again and again; every answer is counted."""

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
def pretended(api: Api, pool: PoolHandle, tmp_path: Path) -> Iterator[Callable[..., FakePod]]:
    made: list[FakePod] = []

    def begin(address: str, clock_off_seconds: float) -> FakePod:
        pool.apply({**emulated(a=10, c=1), **NOWHERE, "replicas": 1})
        one = FakePod.of(api, pool, address, tmp_path)
        made.append(one)
        one.start(clock_off_seconds)

        def ready() -> bool:
            try:
                url = f"http://{address}:{names.CLUSTER_PORT}{names.PATH_READYZ}"
                with urllib.request.urlopen(url, timeout=5) as reply:
                    return bool(reply.status == 200)
            except OSError:
                return False

        until("the runtime serves", ready, seconds=START_SECONDS)
        one.tell_running()
        return one

    yield begin
    for one in made:
        one.stop()


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
def test_a_clock_that_is_behind_hinders_nothing(
    api: Api, pool: PoolHandle, pretended: Callable[..., FakePod]
) -> None:
    one = pretended("127.0.113.1", -FIVE_MINUTES)
    with RepeatingClient(f"http://{one.address}:{names.CLIENT_PORT}/v2/models/chat/infer") as load:
        pool.await_condition("LimitsApplied", "True", seconds=40)
        before = one.generation()
        pool.edit({"batching": {"maxQueueDepth": 71}})
        pool.await_acknowledged(after=before, seconds=30)
        time.sleep(10)
    assert (load.lost, replicas(api, pool)) == ([], 1)
    assert load.good > 20


@pytest.mark.timeout(400)
def test_a_clock_that_is_ahead_is_told_and_the_pod_goes_on_by_its_config_map(
    api: Api, pool: PoolHandle, pretended: Callable[..., FakePod]
) -> None:
    one = pretended("127.0.113.2", FIVE_MINUTES)
    with RepeatingClient(f"http://{one.address}:{names.CLIENT_PORT}/v2/models/chat/infer") as load:
        pool.edit({"batching": {"maxQueueDepth": 72}})
        pool.await_condition("LimitsApplied", "False", "PodsUnreachable", seconds=60)
        assert "set the node's clock right" in pool.condition("LimitsApplied")["message"]
        wanted = one.generation()
        one.sync_settings()

        def obeys() -> bool:
            return metric(one.address, names.METRIC_LIMITS_GENERATION) == wanted

        until("it obeys by its ConfigMap", obeys, seconds=20)
        time.sleep(10)
    assert (load.lost, replicas(api, pool)) == ([], 1)
    assert load.good > 20
