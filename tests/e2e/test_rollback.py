"""An edit that makes requests late is rolled back automatically, without a change of the pool's spec."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.pools import PoolHandle, until
from tests.support.load.load import Load

POLICY_PATH = "/apis/penstock.dev/v1alpha1/inferencepolicies/e2e-rollback"
WINDOW = 60
GOOD, BAD = 16, 1
"""Rows per batch; t(16) = 120 ms serves 130 requests/s, t(1) = 45 ms serves 22."""
RATE = 30.0


@pytest.fixture
def policy(api: Api, namespace: str) -> Iterator[None]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    rollback = {"mode": "OnObjectiveMiss", "windowSeconds": WINDOW}
    spec = {"namespaceSelector": selector, "rollback": rollback}
    api.apply({**head, "metadata": {"name": "e2e-rollback"}, "spec": spec})
    yield
    api.delete(POLICY_PATH)


def batching(most: int) -> dict[str, object]:
    return {"batching": {"mode": "Fixed", "size": {"max": most}, "maxQueueDepth": 64}}


def published(pool: PoolHandle) -> int:
    cap: int = pool.status().get("batch", {}).get("cap", 0)
    return cap


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_an_edit_that_makes_requests_late_is_rolled_back(
    policy: None, make_pool: MakePool, figure: Figure
) -> None:
    objectives = [{"metric": "RequestLatency", "milliseconds": 1000}]
    pool = make_pool(a=40, c=5, objectives=objectives, scaling={"mode": "Manual"}, **batching(GOOD))
    pool.await_ready(1)
    async with Load(pool.url(), pool.name, rate=RATE) as load:
        for _ in range(WINDOW + 30):
            await load.next()  # one report a second, over the window before the edit
        pool.edit(batching(BAD))
        until("the edit in force", lambda: published(pool) == BAD, seconds=20)
        took = 0.0
        while published(pool) == BAD and took < 4 * WINDOW:
            await load.next()
            took += 1
        pool.await_condition("PolicyApplied", "False", "SetAside", seconds=20)
        assert published(pool) == GOOD
        pool.await_acknowledged(seconds=30)
    message = pool.condition("PolicyApplied")["message"]
    assert f"batching.size.max {GOOD} -> {BAD} rolled back" in message
    assert pool.get()["spec"]["batching"]["size"]["max"] == BAD
    figure(f"a harmful edit rolled back after {took:.0f} s: {message}")
