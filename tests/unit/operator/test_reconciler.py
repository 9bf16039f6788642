"""The loop under more work than it can do turns on and tells how late it is; where another leads it tells of no pool."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_operator import reconciler, reporter, workqueue
from penstock_operator.decide.plan import Plan
from penstock_operator.kube.scope import CLUSTER
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import PoolObject, PoolView
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler import Reconciler
from penstock_operator.telemetry import metrics, policy_metrics
from tests.unit.operator.decide.world import CONFIG, policy, pool, settled

DECIDE_SECONDS = 0.05


class Forgets:
    def forget(self, uid: str) -> None:
        del uid


@dataclass
class Blind:
    """An observer that sees nothing, at once."""

    store: ObjectStore
    memory: ReconcileState = field(default_factory=ReconcileState)
    confirmations: Forgets = field(default_factory=Forgets)

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        del pools, now
        return []


@dataclass
class Leads:
    """Whether the own Lease is held, and that of every namespace."""

    own: bool = True
    within: bool = True

    def valid(self, now: float) -> bool:
        return self.own and now > 0

    def valid_in(self, namespace: str | None) -> bool:
        return self.own and self.within and bool(namespace)


class Schemas:
    def of(self, kind: str) -> str:
        return kind


class Keys:
    def public_keys(self) -> dict[str, str]:
        return {}


def operation(pools: int, leads: Leads | None = None) -> Reconciler:
    store = ObjectStore()
    store.pools = {f"uid-{one}": pool(f"pool-{one}", f"uid-{one}") for one in range(pools)}
    acts = cast("Any", SimpleNamespace(statuses=Forgets(), events=Forgets()))
    observer, led = cast("Any", Blind(store)), cast("Any", leads or Leads())
    schemas, keys = cast("Any", Schemas()), cast("Any", Keys())
    return Reconciler(CONFIG, observer, acts, led, CLUSTER, schemas, keys, ready=True)


async def each_turn(made: Reconciler, steps: list[int], wanted: int) -> list[int]:
    """Run the loop until so many decide steps were taken; return how many each turn took of it."""
    loop = asyncio.create_task(made.run())
    taken = [0]
    async with asyncio.timeout(60):
        while taken[-1] < wanted:
            await asyncio.sleep(0)
            taken.append(len(steps))
    loop.cancel()
    await asyncio.gather(loop, *made._batches, return_exceptions=True)
    return [after - before for before, after in pairwise(taken)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make deciding slow; hold which steps were taken."""
    taken: list[int] = []

    def slow(*_: object) -> Plan:
        time.sleep(DECIDE_SECONDS)
        taken.append(1)
        return Plan((), ())

    monkeypatch.setattr(reconciler, "make_plan", slow)
    monkeypatch.setattr(
        workqueue.WorkQueue, "decided", lambda queue, *_: setattr(queue, "batch", 2)
    )
    return taken


def test_no_turn_of_the_loop_holds_more_than_one_decide_step(steps: list[int]) -> None:
    made = operation(pools=12)
    made.due.batch = 2
    made.enqueue(None)
    turns = asyncio.run(each_turn(made, steps, wanted=6))
    assert sum(turns) == len(steps) == 6
    assert max(turns) == 1


def test_passes_begin_no_faster_than_they_are_decided_on() -> None:
    async def begun() -> float:
        made = operation(pools=1)
        made._decide_seconds = 0.4
        made._start((), 100.0)
        await asyncio.gather(*made._batches)
        return made._next_pass

    assert asyncio.run(begun()) == 100.4


def test_lateness_is_measured_and_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def counted() -> float:
        return metrics.OWN.get_sample_value("penstock_operator_visit_late_seconds_count") or 0.0

    made, before = operation(pools=1), counted()
    made.due.late = (0.0, 12.0)
    with caplog.at_level(logging.WARNING):
        for now in (10.0, 30.0, 69.0, 70.0):
            made._tell_late(now)
    assert counted() - before == 8
    assert ["12 s behind" in one.message for one in caplog.records] == [True, True]


@pytest.fixture
def _nothing_told() -> Iterator[None]:
    reporter.forget_all()
    yield
    reporter.forget_all()


def decided(leads: Leads) -> Reconciler:
    """An operation that has told of one pool, of its policy's budget and of its candidate."""
    made = operation(pools=0, leads=leads)
    budget = {"resourceName": "nvidia.com/gpu", "count": 8}
    tried = {"defaults": {"scaling": {"minReplicas": 3}}}
    world = settled(
        pool=pool(scaling={"mode": "Auto"}),
        policies=(policy("prod", gpuBudgets=[budget], candidate=tried),),
    )
    made.observer.store.pools = {world.pool.uid: world.pool}
    plan = world.whole_plan()
    policy_metrics.record_plan(plan)
    reporter.report_decision(plan.pools[0], world.view(), made.observer.memory.of(world.pool.uid))
    assert series() == {"pool", "policy"}
    return made


def series() -> set[str]:
    """Return of what the exposition tells: of pools, of policies."""
    text = metrics.exposition().decode()
    return {label for label in ("pool", "policy") if f'{label}="' in text}


@pytest.mark.usefixtures("_nothing_told")
def test_a_process_that_lost_the_lease_tells_of_no_pool_and_no_policy() -> None:
    made = decided(Leads(own=False))

    async def one_turn() -> None:
        loop = asyncio.create_task(made.run())
        await asyncio.sleep(0)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(one_turn())
    assert series() == set()


@pytest.mark.usefixtures("_nothing_told")
def test_who_begins_to_lead_anew_tells_of_no_pool_that_went_meanwhile() -> None:
    made = decided(Leads())
    made.reset()
    made.observer.store.pools.clear()
    made._forget("uid-chat")
    assert series() == set()


@pytest.mark.usefixtures("_nothing_told")
def test_of_pools_in_a_namespace_that_another_leads_nothing_is_told() -> None:
    made = decided(Leads(within=False))
    assert asyncio.run(made._filter_actionable({"uid-chat"})) == []
    assert series() == {"policy"}


@pytest.mark.usefixtures("_nothing_told")
def test_of_pools_in_a_namespace_just_won_nothing_is_told_that_was_told_before() -> None:
    made = decided(Leads())
    made.adopt_namespaces(frozenset({"team-a"}))
    assert series() == {"policy"}
