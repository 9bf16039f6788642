"""Passes over an unchanged cluster write nothing."""

import json
import os
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.cluster.places import Places
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration

POOLS = 5
QUIET_SECONDS = 25
"""Five ticks; shorter than the minute after which status figures are refreshed."""


def test_ticks_over_unchanged_pools_cost_no_write(api: Api, namespace: str) -> None:
    make(api, namespace, POOLS)
    assert written_within(api, namespace, QUIET_SECONDS) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_minutes_over_fifty_unchanged_pools_cost_no_write(api: Api, namespace: str) -> None:
    for pool in make(api, namespace, 50):
        until("the status has the second tick's terms", partial(settled, pool), seconds=120)
    time.sleep(10)
    assert written_within(api, namespace, 300) == []


def make(api: Api, namespace: str, number: int) -> list[PoolHandle]:
    """Create pools without replicas, and wait until their statuses have followed the Deployments' statuses."""
    pools = [PoolHandle(api, namespace, f"quiet-{index}") for index in range(number)]
    for pool in pools:
        pool.apply(BARE)
    for pool in pools:
        await_children(api, pool)
        pool.await_zero(seconds=60)
    time.sleep(10)
    if audit_log().exists():
        assert len(audited(0, namespace)) > sum(len(pool.children) for pool in pools), (
            "the audit log counts the creations"
        )
    return pools


def written_within(api: Api, namespace: str, seconds: float) -> list[str]:
    """Return the operator's writes and new Events in a namespace during the next seconds."""
    before, since = Counter(events_posted(api, namespace)), time.time()
    time.sleep(seconds)
    posted = Counter(events_posted(api, namespace)) - before
    return [*audited(since, namespace), *posted.elements()]


def settled(pool: PoolHandle) -> bool:
    """Return whether the status has the term of the second tick: no pod sends signals."""
    term: str = pool.status().get("scaling", {}).get("capTerm", "")
    return term == "SignalsAbsent"


def test_an_edit_is_published_before_the_next_tick(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    pool.await_zero(seconds=20)
    version = api.request("GET", pool.children["ConfigMap"])["metadata"]["resourceVersion"]

    pool.edit({"batching": {"maxQueueDepth": 77}})

    def published() -> bool:
        settings = api.request("GET", pool.children["ConfigMap"])
        limits = json.loads(settings["data"]["limits.json"])
        moved = settings["metadata"]["resourceVersion"] != version
        return bool(moved and limits["maxQueueDepth"] == 77)

    assert until("the new depth is published", published, seconds=5, every=0.05) < 3


def events_posted(api: Api, namespace: str) -> list[str]:
    """Return the operator's Events in a namespace, which the test cluster's audit log omits."""
    listed = api.list(f"/api/v1/namespaces/{namespace}/events")
    ours = [event for event in listed if event["source"].get("component") == "penstock-operator"]
    return sorted(f"{event['involvedObject']['name']}: {event['reason']}" for event in ours)


def audited(since: float, namespace: str) -> list[str]:
    """Return the operator's writes in a namespace by the API server's audit log, if it can be read."""
    if not audit_log().exists():
        return []
    lines = audit_log().read_text().splitlines()
    events: list[Object] = [json.loads(line) for line in lines if "penstock-operator" in line]
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event["requestReceivedTimestamp"] > stamp(since)
        and event["userAgent"] == "penstock-operator"
        and event["objectRef"].get("namespace") == namespace
    ]


def audit_log() -> Path:
    """Return the audit log of the tested cluster, next to its kubeconfig if it is a project cluster."""
    given = os.environ.get("KUBECONFIG")
    run = Path(given).parent if os.environ.get("KUBE_CONTEXT") and given else Places.from_env().run
    return run / "log" / "audit.log"


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
