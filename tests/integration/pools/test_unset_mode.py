"""An unset `scaling.mode` with a real operator: Auto by target for new pools, Manual for those of earlier releases."""

from collections.abc import Callable

import pytest

from tests.integration.pools.test_children import await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = pytest.mark.integration

WITH_TARGET = emulated(
    replicas=0, objectives=[{"metric": "RequestLatency", "milliseconds": 500, "percent": "99.5"}]
)


def test_a_new_pool_with_an_objective_scales_by_itself_and_says_so(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply(WITH_TARGET)
    await_children(api, pool)
    status = await_status(pool, lambda seen: seen.get("scalingMode") == "Auto")
    assert status["unsetScalingMode"] == "ByTarget"
    assert status["url"] == f"http://chat.{pool.namespace}.svc:8000"
    assert status["model"] == "chat"
    effective = {item["field"]: (item["value"], item["origin"]) for item in status["effective"]}
    assert effective["objectives.RequestLatency"] == ("500 ms for 99.5 %", "Spec")
    assert effective["scaling.mode"] == ("Auto", "BuiltIn")


def test_a_pool_that_an_earlier_release_served_stays_manual(
    api: Api, pool: PoolHandle, operator: OperatorProcess
) -> None:
    with operator.down():
        pool.apply(WITH_TARGET)
        earlier = {"observedGeneration": 1, "replicas": 0, "selector": "penstock.dev/pool-uid=x"}
        api.merge(f"{pool.path}/status", {"status": earlier})
    await_status(pool, lambda seen: seen.get("unsetScalingMode") == "Manual")
    assert pool.status()["scalingMode"] == "Manual"
    with operator.down():
        pass
    pool.edit({"batching": {"maxQueueDepth": 77}})
    await_status(pool, lambda seen: seen.get("observedGeneration") == 2)
    assert pool.status()["scalingMode"] == "Manual"


def test_a_pool_whose_status_was_lost_is_known_by_its_children(
    api: Api, pool: PoolHandle, operator: OperatorProcess
) -> None:
    pool.apply(WITH_TARGET)
    await_children(api, pool)
    with operator.down():
        api.request("PUT", f"{pool.path}/status", {**pool.get(), "status": {}})
    await_status(pool, lambda seen: seen.get("unsetScalingMode") == "Manual")


def await_status(pool: PoolHandle, reached: Callable[[Object], bool]) -> Object:
    """Return the status once it is as expected."""

    def probe() -> bool | str:
        status = pool.status()
        return reached(status) or str(status)

    until("the status", probe, seconds=30)
    return pool.status()
