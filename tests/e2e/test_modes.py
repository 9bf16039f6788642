"""A change of the scaling mode never collapses the replica count, and the scale subresource works in mode Manual."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import MakePool
from tests.support.kube.api import Api, ApiError
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target

EIGHT = 8
WATCHED_SECONDS = 12.0


@pytest.fixture
def eight(make_pool: MakePool) -> Iterator[PoolHandle]:
    pool = make_pool(scaling={"mode": "Auto", "minReplicas": EIGHT, "maxReplicas": EIGHT})
    pool.await_ready(EIGHT, seconds=180)
    yield pool
    pool.delete()


def assert_keeps(pool: PoolHandle, names: set[str]) -> None:
    """Assert for a while that the same pods stay."""
    ends = time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < ends:
        assert pool.pod_names() == names
        time.sleep(0.5)


def test_eight_replicas_stay_through_auto_hold_auto_and_manual(eight: PoolHandle) -> None:
    names = eight.pod_names()
    eight.edit({"scaling": {"mode": "Hold", "minReplicas": 1, "maxReplicas": 10}})
    eight.await_condition("Scaling", "False", "Held", seconds=10)
    assert_keeps(eight, names)
    eight.edit({"scaling": {"mode": "Auto"}})
    eight.await_condition("Scaling", "True", "Acting", seconds=30)
    assert_keeps(eight, names)
    with pytest.raises(ApiError, match=r"would shrink the pool from 8.*use mode Hold"):
        eight.edit({"scaling": {"mode": "Manual"}})
    eight.edit({"scaling": {"mode": "Manual"}, "replicas": EIGHT})
    eight.await_condition("Scaling", "False", "Manual", seconds=10)
    assert_keeps(eight, names)


def test_kubectl_scale_moves_a_manual_pool(target: Target, api: Api, steady: PoolHandle) -> None:
    scale = api.request("GET", f"{steady.path}/scale")
    assert scale["spec"]["replicas"] == scale["status"]["replicas"] == 2
    assert scale["status"]["selector"] == steady.status()["selector"]
    target.kubectl("scale", "pspool", steady.name, "-n", steady.namespace, "--replicas=1")
    steady.await_ready(1)


def test_a_scale_write_that_auto_ignores_is_reported(target: Target, steady: PoolHandle) -> None:
    names = steady.pod_names()
    steady.edit({"scaling": {"mode": "Auto", "minReplicas": 2, "maxReplicas": 2}})
    steady.await_condition("Scaling", "True", "Acting", seconds=30)
    target.kubectl("scale", "pspool", steady.name, "-n", steady.namespace, "--replicas=5")
    steady.await_condition("Scaling", "True", "ReplicasIgnored", seconds=10)
    assert steady.pod_names() == names
    path = f"/api/v1/namespaces/{steady.namespace}/events"

    def reported() -> bool:
        return any(event["reason"] == "ReplicasIgnored" for event in steady.api.list(path))

    until("an Event reports it", reported, seconds=10)
