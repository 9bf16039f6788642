"""The reconcile loop: overload, phases, and the metrics of pools that this process does not lead."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_api.types.policy import PolicyStatus
from penstock_operator.act.status import Statuses
from penstock_operator.decide.plan import Plan, PolicyPlan
from penstock_operator.errors import Rejected, Unavailable
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.scope import CLUSTER
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import PoolObject, PoolView
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler import passes, reporter, workqueue
from penstock_operator.reconciler.leader_state import KEYS_SECONDS, LeaderState
from penstock_operator.reconciler.loop import Phase, Reconciler
from penstock_operator.reconciler.passes import PassRunner
from penstock_operator.telemetry import metrics, policy_metrics
from tests.unit.operator.decide.world import CONFIG, policy, pool, settled
from tests.unit.operator.observe.cluster import raw_objects

DECIDE_SECONDS = 0.05


class NoMemory:
    """Stands for parts that drop what they keep of a pool."""

    statuses: object = None

    def forget(self, uid: str) -> None:
        del uid


@dataclass
class EmptyObserver:
    """An observer that returns no view."""

    store: ObjectStore
    state: ReconcileState = field(default_factory=ReconcileState)
    confirmations: NoMemory = field(default_factory=NoMemory)

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        del pools, now
        return []


@dataclass
class FakeLeases:
    """Whether the own Lease is held, and that of every namespace."""

    own: bool = True
    within: bool = True
    namespaces: frozenset[str] = frozenset()

    def valid(self, now: float) -> bool:
        return self.own and now > 0

    def valid_in(self, namespace: str | None) -> bool:
        return self.own and self.within and bool(namespace)

    def led(self) -> frozenset[str]:
        return self.namespaces if self.own else frozenset()


class Schemas:
    def of(self, kind: str) -> str:
        return kind


class Keys:
    def public_keys(self) -> dict[str, str]:
        return {}


KEYS = cast("Any", Keys())


def syncing(pools: int, leases: FakeLeases | None = None) -> Reconciler:
    store = ObjectStore()
    store.pools = {f"uid-{index}": pool(f"pool-{index}", f"uid-{index}") for index in range(pools)}
    acts = cast("Any", NoMemory())
    leader = LeaderState(cast("Any", leases or FakeLeases()))
    schemas = cast("Any", Schemas())
    observer = cast("Any", EmptyObserver(store))
    return Reconciler(PassRunner(CONFIG, observer, acts, leader, CLUSTER, schemas))


def leading(pools: int, leases: FakeLeases | None = None) -> Reconciler:
    reconciler = syncing(pools, leases)
    reconciler.lead(KEYS, time.monotonic())
    reconciler.mark_synced()
    return reconciler


def test_a_reconciler_leads_when_it_is_synced_holds_the_lease_and_has_keys() -> None:
    leases = FakeLeases()
    reconciler = syncing(1, leases)
    reconciler.enqueue(None)
    assert (reconciler.phase(1.0), reconciler.queue.next_at()) == (Phase.SYNCING, float("inf"))
    reconciler.mark_synced()
    assert reconciler.phase(1.0) is Phase.STANDBY
    assert reconciler.queue.next_at() < float("inf")
    reconciler.lead(KEYS, 1.0)
    assert reconciler.phase(1.0) is Phase.LEADING
    leases.own = False
    assert reconciler.phase(1.0) is Phase.STANDBY


def test_keys_are_read_when_a_term_begins_and_once_an_hour() -> None:
    leases = FakeLeases()
    leader = syncing(0, leases).leader
    assert leader.keys_due(1.0)
    assert leader.set_keys(KEYS, 1.0)
    assert not leader.keys_due(1.0 + KEYS_SECONDS - 1)
    assert leader.keys_due(1.0 + KEYS_SECONDS)
    assert not leader.set_keys(KEYS, 2.0), "the term goes on"
    leases.own = False
    leader.refresh(3.0)
    assert not leader.keys_due(3.0)
    leases.own = True
    assert not leader.leads(4.0)
    assert leader.set_keys(KEYS, 4.0)


def test_namespaces_are_adopted_once_when_their_lease_is_won() -> None:
    leases = FakeLeases(namespaces=frozenset({"team-a"}))
    leader = syncing(0, leases).leader
    assert leader.refresh(1.0) == {"team-a"}
    assert leader.refresh(2.0) == frozenset()
    leases.own = False
    assert leader.refresh(3.0) == frozenset()
    leases.own = True
    assert leader.refresh(4.0) == {"team-a"}


async def steps_per_turn(reconciler: Reconciler, steps: list[int], until: int) -> list[int]:
    """Run the loop until `until` decide steps were taken; return how many each turn of the event loop took."""
    loop = asyncio.create_task(reconciler.run())
    taken = [0]
    async with asyncio.timeout(60):
        while taken[-1] < until:
            await asyncio.sleep(0)
            taken.append(len(steps))
    loop.cancel()
    await asyncio.gather(loop, *reconciler._passes, return_exceptions=True)
    return [after - before for before, after in pairwise(taken)]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make decide steps slow, and return the list that grows with each."""
    taken: list[int] = []

    def slow(*_: object) -> Plan:
        time.sleep(DECIDE_SECONDS)
        taken.append(1)
        return Plan((), ())

    monkeypatch.setattr(passes, "make_plan", slow)
    monkeypatch.setattr(
        workqueue.WorkQueue, "record_decide_time", lambda queue, *_: setattr(queue, "batch", 2)
    )
    return taken


def test_one_turn_of_the_event_loop_runs_at_most_one_decide_step(steps: list[int]) -> None:
    reconciler = leading(pools=12)
    reconciler.queue.batch = 2
    turns = asyncio.run(steps_per_turn(reconciler, steps, until=6))
    assert sum(turns) == len(steps) == 6
    assert max(turns) == 1


def test_policies_of_a_cluster_without_pools_get_a_pass_when_one_changes(steps: list[int]) -> None:
    reconciler = leading(pools=0)
    asyncio.run(steps_per_turn(reconciler, steps, until=1))
    reconciler._start_due(time.monotonic() + 100)
    assert len(steps) == 1, "nothing changed since"
    reconciler.enqueue(None)
    asyncio.run(steps_per_turn(reconciler, steps, until=2))


def test_passes_start_no_faster_than_they_are_decided() -> None:
    async def next_pass_at() -> float:
        reconciler = leading(pools=1)
        reconciler.runner.decide_seconds = 0.4
        reconciler._start((), 100.0)
        await asyncio.gather(*reconciler._passes)
        return reconciler._next_pass_at

    assert asyncio.run(next_pass_at()) == 100.4


def test_lateness_is_measured_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def observations() -> float:
        return metrics.OWN.get_sample_value("penstock_operator_visit_late_seconds_count") or 0.0

    report, before = leading(pools=1).lateness, observations()
    with caplog.at_level(logging.WARNING):
        for now in (10.0, 30.0, 69.0, 70.0):
            report.record((0.0, 12.0), now)
    assert observations() - before == 8
    assert ["12 s late" in record.message for record in caplog.records] == [True, True]


@pytest.fixture
def _no_series() -> Iterator[None]:
    reporter.forget_all()
    yield
    reporter.forget_all()


def reported(leases: FakeLeases) -> Reconciler:
    """Return a reconciler that has series of one pool, of its policy's budget and of its candidate."""
    reconciler = leading(pools=0, leases=leases)
    budget = {"resourceName": "nvidia.com/gpu", "count": 8}
    candidate = {"defaults": {"scaling": {"minReplicas": 3}}}
    world = settled(
        pool=pool(scaling={"mode": "Auto"}),
        policies=(policy("prod", gpuBudgets=[budget], candidate=candidate),),
    )
    observer = reconciler.runner.observer
    observer.store.pools = {world.pool.uid: world.pool}
    plan = world.whole_plan()
    policy_metrics.record_plan(plan)
    reporter.report_decision(plan.pools[0], world.view(), observer.state.of(world.pool.uid))
    assert series_labels() == {"pool", "policy"}
    return reconciler


def series_labels() -> set[str]:
    """Return which of the labels `pool` and `policy` the exposition contains."""
    text = metrics.exposition().decode()
    return {label for label in ("pool", "policy") if f'{label}="' in text}


@pytest.mark.usefixtures("_no_series")
def test_a_process_that_lost_the_lease_exports_no_pool_and_no_policy() -> None:
    reconciler = reported(FakeLeases(own=False))

    async def one_turn() -> None:
        loop = asyncio.create_task(reconciler.run())
        await asyncio.sleep(0)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(one_turn())
    assert series_labels() == set()


@pytest.mark.usefixtures("_no_series")
def test_a_new_term_exports_no_pool_that_was_deleted_meanwhile() -> None:
    reconciler = reported(FakeLeases())
    reconciler.reset()
    reconciler.runner.observer.store.pools.clear()
    reconciler.runner.cleanup.forget("uid-chat")
    assert series_labels() == set()


@pytest.mark.usefixtures("_no_series")
def test_pools_in_a_namespace_that_another_installation_leads_are_not_exported() -> None:
    reconciler = reported(FakeLeases(within=False))
    assert reconciler.runner.filter_actionable({"uid-chat"}) == []
    assert series_labels() == {"policy"}


@pytest.mark.usefixtures("_no_series")
def test_series_of_pools_in_a_namespace_just_won_are_dropped() -> None:
    reconciler = reported(FakeLeases())
    reconciler.adopt_namespaces(frozenset({"team-a"}))
    assert series_labels() == {"policy"}


@pytest.mark.usefixtures("_no_series")
def test_a_pool_that_is_being_deleted_is_not_exported() -> None:
    runner = reported(FakeLeases()).runner
    pools, batch = runner.observer.store.pools, {"uid-chat"}
    pools["uid-chat"] = replace(pools["uid-chat"], deleting=True)
    assert runner.filter_actionable(batch) == []
    assert (series_labels(), batch) == ({"policy"}, set())


@pytest.mark.usefixtures("_no_series")
async def test_an_unreadable_pool_is_exported_while_its_namespace_is_led() -> None:
    leases = FakeLeases()
    runner = with_unreadable(0, FailingOnce(UNREADABLE), leases)
    for led, labels in ((True, {"pool"}), (False, set()), (True, {"pool"})):
        leases.within = led
        runner.filter_actionable({"pool-1"})
        assert series_labels() == labels
    runner.observer.store.remove(kinds.POOL, "pool-1")
    runner.filter_actionable({"pool-1"})
    assert series_labels() == set()


@dataclass
class FailingOnce:
    """A writer whose first write fails."""

    answer: dict[str, Any]
    writes: int = 0

    async def write(self, *_: object) -> dict[str, Any]:
        self.writes += 1
        if self.writes == 1:
            raise Unavailable(503, "ServiceUnavailable", "try again")
        return self.answer


async def test_a_policy_whose_status_cannot_be_written_backs_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempts: list[float] = []

    async def reject(plan: PolicyPlan, now: float) -> None:
        attempts.append(now)
        raise Rejected(403, "Forbidden", f"{plan.name} may not be patched")

    runner = leading(0).runner
    cast("Any", runner.acts).statuses = SimpleNamespace(write_policy=reject)
    plan = Plan((), (PolicyPlan("prod", PolicyStatus()),))
    for now in (0.0, 1.0, 2.0, 5.0, 6.0):
        await runner._write_policies(plan, now)
    assert attempts == [0.0, 2.0, 6.0]
    assert not any(record.exc_info for record in caplog.records)


UNREADABLE = raw_objects.pool(scaling={"mode": "Telepathy"})


def with_unreadable(pools: int, writer: object, leases: FakeLeases | None = None) -> PassRunner:
    """Return the runner of a reconciler that leads, with the pool `pool-1` whose spec is unreadable."""
    runner = leading(pools, leases).runner
    runner.observer.store.upsert(kinds.POOL, UNREADABLE)
    schemas = SimpleNamespace(of=lambda _: SimpleNamespace(lacking=()))
    statuses = Statuses(
        cast("Any", writer), runner.observer.store, cast("Any", schemas), lambda _: None
    )
    cast("Any", runner.acts).statuses = statuses
    return runner


async def test_the_report_of_an_unreadable_pool_delays_no_pool_of_its_batch() -> None:
    async def wait(*_: object) -> None:
        await asyncio.sleep(3600)

    runner, batch = with_unreadable(1, SimpleNamespace(write=wait)), {"pool-1", "uid-0"}
    await asyncio.wait_for(runner.run(batch), 5)
    assert batch == {"uid-0"}, "observed, and requeued by the loop"
    assert len(runner._reports) == 1


async def test_the_report_of_an_unreadable_pool_keeps_the_rest_of_its_status() -> None:
    written: list[Any] = []

    async def record(kind: object, verb: str, request: ApiRequest, urgency: object) -> Any:
        written.append(cast("Any", request.body)["status"])
        return UNREADABLE

    runner = with_unreadable(0, SimpleNamespace(write=record))
    stored = {"replicas": 2, "selector": "a=b", "scaling": {"ofLater": 1}, "conditions": []}
    newer = raw_objects.pool(version=2, scaling={"mode": "Telepathy"})
    runner.observer.store.upsert(kinds.POOL, {**newer, "status": stored})
    runner.filter_actionable({"pool-1"})
    await asyncio.gather(*runner._reports)
    (status,) = written
    assert [each["type"] for each in status.pop("conditions")] == ["Ready", "Stalled"]
    assert status == {
        "replicas": 2, "selector": "a=b", "scaling": {"ofLater": 1}, "observedGeneration": 1
    }  # fmt: skip


async def test_the_status_of_an_unreadable_pool_is_written_again_after_a_failure() -> None:
    writer = FailingOnce(UNREADABLE)
    runner, due = with_unreadable(0, writer), []
    for _ in range(3):
        runner.filter_actionable({"pool-1"})
        await asyncio.gather(*runner._reports)
        due.append("pool-1" in runner.queue._pace)
        assert runner.queue.pop(inf) == ["pool-1"]
        runner.queue.done("pool-1")
    assert due == [False, True, True], "requeued with back-off, then at each interval"
    assert writer.writes == 2, "once for each generation"


def test_an_unreadable_pool_of_a_led_namespace_is_among_the_pools() -> None:
    observed = with_unreadable(0, None)._observed(())
    assert [each.uid for each in observed.all_pools] == ["pool-1"]
    assert observed.unreadable_pools == {"pool-1"}
