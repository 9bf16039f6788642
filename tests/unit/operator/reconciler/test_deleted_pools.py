"""Passes over deleted pools: their devices stay in the ledger while their pods are bound."""

from typing import Any, cast

import pytest

from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.reconciler.passes import PassRunner
from tests.unit.operator.decide.world import policy
from tests.unit.operator.observe.cluster import raw_objects
from tests.unit.operator.observe.cluster.test_deleted_pools import GPU, pool, running_pool
from tests.unit.operator.reconciler.test_reconciler import FakeLeases, leading


def runner_of(
    store: ObjectStore, leases: FakeLeases | None = None
) -> tuple[PassRunner, ObjectStore]:
    """Return the runner of a reconciler that leads, with the objects of `store`."""
    runner = leading(0, leases).runner
    cast("Any", runner.observer).store = store
    return runner, store


@pytest.mark.parametrize("finalizer", [False, True])
def test_devices_of_a_deleted_pool_count_until_its_pods_are_gone(finalizer: bool) -> None:
    runner, store = runner_of(running_pool())
    budget: dict[str, Any] = {"resourceName": GPU, "count": 4}
    store.policies["p"] = policy("prod", gpuBudgets=[budget])
    if finalizer:
        store.upsert(kinds.POOL, pool(2, deletionTimestamp=raw_objects.CREATED))
    else:
        store.remove(kinds.POOL, "pool-1", 2)
    for pods in (2, 1):
        runner._plan([], 1000.0)
        (request,) = runner.observer.state.ledger.requests.values()
        assert (request.pool, request.resource, request.used) == ("pool-1", GPU, pods)
        store.remove(kinds.POD, "pq"[pods - 1], 3)
    runner._plan([], 1000.0)
    assert not runner.observer.state.ledger.requests


def test_devices_of_a_namespace_that_another_installation_leads_do_not_count() -> None:
    leases = FakeLeases()
    runner, store = runner_of(running_pool(), leases)
    store.remove(kinds.POOL, "pool-1", 2)
    assert len(runner._observed(()).deleted_pools) == 1
    leases.within = False
    assert runner._observed(()).deleted_pools == ()
