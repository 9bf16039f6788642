"""Rollouts on a node whose devices are all in use, with the real scheduler and Deployment controller."""

import secrets
from collections.abc import Iterator

import pytest

from tests.support.kube.api import Api, Object
from tests.support.kube.nodes.fake_node import BROKEN_IMAGE, FakeNode
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.kube.target import Target

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

EDIT = {"annotations": {"example.com/turn": "2"}}


@pytest.fixture
def full_node(target: Target) -> Iterator[FakeNode]:
    """A node of two devices."""
    name = f"fake-{secrets.token_hex(3)}"
    with FakeNode(target.api(), name, 2).running() as node:
        yield node


def test_a_rollout_without_a_spare_device_surges_waits_and_replaces(
    api: Api, pool: PoolHandle, full_node: FakeNode
) -> None:
    pool.apply(full_node.spec(replicas=2))
    await_ready(pool, 2)
    old = pool.pod_names()

    pool.apply(full_node.spec(replicas=2, template=EDIT))
    took, fewest = watch_replaced(api, pool, old, seconds=120)

    assert took > 25  # it waited for a free device first
    assert fewest == 1
    assert any(
        "Insufficient nvidia.com/gpu" in message
        for message in event_messages(api, pool, "ReplacingWithoutSurge")
    )
    until("the next rollout surges again", lambda: strategy(api, pool)["maxSurge"] == 1, seconds=20)


def watch_replaced(api: Api, pool: PoolHandle, old: set[str], seconds: float) -> tuple[float, int]:
    """Wait until as many other pods as `old` are Ready; return the seconds, and the smallest number of Ready pods."""
    fewest = len(old)

    def replaced() -> bool | str:
        nonlocal fewest
        pods = pool.pods()
        fewest = min(fewest, sum(map(is_ready, pods)))
        done = len(pods) == len(old) and all(map(is_ready, pods)) and not old & pool.pod_names()
        return done or str(strategy(api, pool))

    return until("every pod replaced", replaced, seconds=seconds), fewest


def test_a_rollout_with_a_spare_device_never_has_fewer_pods(
    api: Api, pool: PoolHandle, full_node: FakeNode
) -> None:
    pool.apply(full_node.spec(replicas=1))
    await_ready(pool, 1)
    old = pool.pod_names()
    pool.apply(full_node.spec(replicas=1, template=EDIT))
    _, fewest = watch_replaced(api, pool, old, seconds=60)
    assert fewest == 1
    assert event_messages(api, pool, "ReplacingWithoutSurge") == []


def test_a_broken_template_stops_at_its_first_pod_and_undoing_it_replaces_no_other(
    pool: PoolHandle, full_node: FakeNode
) -> None:
    pool.apply(full_node.spec(replicas=1))
    await_ready(pool, 1)
    old = pool.pod_names()
    revision = pool.status()["template"]["revision"]

    pool.apply(full_node.spec(replicas=1, runtime={"image": BROKEN_IMAGE}))

    pool.await_condition("Progressing", "False", "ImagePullFailed", seconds=40)
    assert (
        f"to return to revision {revision}, undo the edit"
        in pool.condition("Progressing")["message"]
    )
    assert pool.condition("Ready")["status"] == "True"
    assert len(pool.pods()) == 2
    pool.apply(full_node.spec(replicas=1))
    until("the broken pod gone", lambda: pool.pod_names() == old, seconds=40)
    pool.await_condition("Progressing", "False", "Settled", seconds=20)


def test_the_only_replica_can_be_evicted_and_is_replaced(
    api: Api, pool: PoolHandle, full_node: FakeNode
) -> None:
    pool.apply(full_node.spec(replicas=1))
    await_ready(pool, 1)
    (name,) = pool.pod_names()
    budget = pool.children["PodDisruptionBudget"]
    until(
        "the budget allows one disruption",
        lambda: api.request("GET", budget)["status"].get("disruptionsAllowed") == 1,
        seconds=30,
    )
    path = f"/api/v1/namespaces/{pool.namespace}/pods/{name}/eviction"
    meta = {"name": name, "namespace": pool.namespace}

    api.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})

    until("another pod", lambda: pool.pod_names() and name not in pool.pod_names(), seconds=30)
    await_ready(pool, 1)


def await_ready(pool: PoolHandle, replicas: int) -> None:
    until(
        f"{replicas} pods ready",
        lambda: sum(map(is_ready, pool.pods())) == pool.status().get("readyReplicas") == replicas,
        seconds=60,
    )


def strategy(api: Api, pool: PoolHandle) -> Object:
    deployment_strategy: Object = api.request("GET", pool.children["Deployment"])["spec"][
        "strategy"
    ]
    step: Object = deployment_strategy["rollingUpdate"]
    return step


def event_messages(api: Api, pool: PoolHandle, reason: str) -> list[str]:
    events = api.list(f"/api/v1/namespaces/{pool.namespace}/events")
    return [event["message"] for event in events if event["reason"] == reason]
