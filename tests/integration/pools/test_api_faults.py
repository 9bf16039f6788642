"""While the API server fails, no child or count changes; edits made meanwhile apply afterwards."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_operator.kube.kinds import WATCHED
from tests.integration.pools.test_children import BARE, await_children
from tests.integration.pools.test_leading import leads
from tests.support.kube.api import Api
from tests.support.kube.faults.fault_proxy import FaultProxy, ProxyFault, fault_proxy
from tests.support.kube.loopback import write_kubeconfig
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

FAULT_SECONDS = 60
RECOVERY_SECONDS = 30
"""kopf's longest pause is 8 s, a Lease lasts 15 s, and the test machine is busy."""

KINDS = len(WATCHED)


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    with fault_proxy(kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def behind(
    operator: OperatorProcess, proxy: FaultProxy, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """The only operator, connected to the API server through the proxy."""
    operator.stop()
    proxied = operator.as_user("behind", write_kubeconfig(tmp_path / "kubeconfig", proxy.url))
    proxied.start()
    until("it leads", lambda: leads(proxied), seconds=60)
    yield proxied
    proxy.fault = ProxyFault.NONE
    if proxied.running:
        proxied.stop()
    operator.start()


def standing(api: Api, pool: PoolHandle) -> dict[str, str]:
    """Return every child's UID and the replica count, which must not change without an edit."""
    children = {kind: api.request("GET", path) for kind, path in pool.children.items()}
    uids = {kind: child["metadata"]["uid"] for kind, child in children.items()}
    return {**uids, "replicas": str(children["Deployment"]["spec"]["replicas"])}


def depth(api: Api, pool: PoolHandle) -> int:
    text = api.request("GET", pool.children["ConfigMap"])["data"]["limits.json"]
    return int(text.split('"maxQueueDepth":')[1].split(",")[0].strip(" }"))


@pytest.mark.timeout(500)
@pytest.mark.parametrize("fault", [ProxyFault.TOO_MANY, ProxyFault.SERVER_ERROR])
def test_a_minute_of_errors_changes_no_child_and_loses_no_edit(
    api: Api, pool: PoolHandle, behind: OperatorProcess, proxy: FaultProxy, fault: ProxyFault
) -> None:
    pool.apply(BARE)
    await_children(api, pool, seconds=60)
    pool.await_zero(seconds=60)
    before = standing(api, pool)

    proxy.fault = fault
    pool.edit({"batching": {"maxQueueDepth": 91}})
    api.delete(pool.children["PodDisruptionBudget"])
    ends = time.monotonic() + FAULT_SECONDS
    while time.monotonic() < ends:
        assert behind.running
        time.sleep(1)
    requests = sum(proxy.answers.values())
    proxy.fault = ProxyFault.NONE

    took = until("the edit is in force", lambda: depth(api, pool) == 91, seconds=RECOVERY_SECONDS)
    await_children(api, pool, seconds=RECOVERY_SECONDS)
    after = standing(api, pool)
    assert {k: v for k, v in after.items() if k != "PodDisruptionBudget"} == {
        k: v for k, v in before.items() if k != "PodDisruptionBudget"
    }
    rejected = proxy.answers[int(fault.value)]
    print(
        f"{fault.value} for {FAULT_SECONDS} s: {rejected} rejections, in force {took:.1f} s after"
    )
    assert rejected < 20 * FAULT_SECONDS, (
        f"the operator overloads a failing server: {requests} requests"
    )


@pytest.mark.timeout(400)
def test_dropped_watches_are_restored_and_miss_no_edit(
    api: Api, pool: PoolHandle, behind: OperatorProcess, proxy: FaultProxy
) -> None:
    pool.apply(BARE)
    await_children(api, pool, seconds=60)
    pool.await_zero(seconds=60)
    before = standing(api, pool)

    until("every kind is watched", lambda: proxy.watches >= KINDS, seconds=30)
    proxy.fault = ProxyFault.NO_WATCH
    assert proxy.drop_watches() >= KINDS
    pool.edit({"batching": {"maxQueueDepth": 92}})
    time.sleep(10)
    proxy.fault = ProxyFault.NONE

    took = until("the edit is in force", lambda: depth(api, pool) == 92, seconds=RECOVERY_SECONDS)
    assert standing(api, pool) == before
    print(f"watches dropped for 10 s: in force {took:.1f} s after")

    until("every kind is watched again", lambda: proxy.watches >= KINDS, seconds=RECOVERY_SECONDS)
    assert proxy.drop_watches() >= KINDS
    pool.edit({"batching": {"maxQueueDepth": 93}})
    until("the next edit is too", lambda: depth(api, pool) == 93, seconds=RECOVERY_SECONDS)
    assert behind.running
