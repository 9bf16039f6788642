"""Only one operator writes at a time, and a suspended leader writes nothing when it resumes."""

import time
from collections.abc import Iterator
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration


@pytest.fixture
def standby(operator: OperatorProcess) -> Iterator[OperatorProcess]:
    process = operator.replica("standby")
    process.start()
    yield process
    if process.running:
        process.stop()


def test_a_standby_takes_over_at_once_from_a_leader_that_stops(
    api: Api, pool: PoolHandle, operator: OperatorProcess, standby: OperatorProcess
) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    assert "penstock_operator_leader 0.0" in standby.get("/metrics")

    with operator.down():
        pool.edit({"batching": {"maxQueueDepth": 78}})
        took = until("the standby leads", lambda: leads(standby), seconds=20)
        pool.await_zero(seconds=10)
    assert took < 10
    assert not [
        line for line in standby.log().splitlines() if pool.namespace in line and "create" in line
    ]


def test_a_standby_acts_within_twenty_seconds_of_a_leader_that_was_killed(
    api: Api, pool: PoolHandle, operator: OperatorProcess, standby: OperatorProcess
) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    pool.await_zero(seconds=20)

    operator.stop(SIGKILL)
    try:
        pool.edit({"batching": {"maxQueueDepth": 80}})
        assert pool.await_zero(seconds=30) < 20
        assert leads(standby)
    finally:
        operator.start()


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_leader_suspended_for_half_a_minute_writes_nothing_when_it_resumes(
    api: Api, pool: PoolHandle, operator: OperatorProcess
) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    operator.send(SIGSTOP)
    other = operator.replica("successor")
    try:
        time.sleep(1)
        other.start()
        until("the successor leads", lambda: leads(other), seconds=30)
        pool.edit({"batching": {"maxQueueDepth": 79}})
        pool.await_zero(seconds=10)
        time.sleep(10)
        before = generation(api, pool)

        operator.send(SIGCONT)
        time.sleep(8)

        assert "penstock_operator_leader 0.0" in operator.get("/metrics")
        assert leads(other)
        assert generation(api, pool) == before
    finally:
        other.stop(SIGKILL)
    until("the first one leads again", lambda: leads(operator), seconds=40)


def leads(operator: OperatorProcess) -> bool:
    return "penstock_operator_leader 1.0" in operator.get("/metrics")


def generation(api: Api, pool: PoolHandle) -> list[str]:
    children = [api.request("GET", path) for path in pool.children.values()]
    return [child["metadata"]["resourceVersion"] for child in [*children, pool.get()]]
