"""The order of a plan's writes: a meaning that must outlive a crash is stored before any child exists."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, cast

from penstock_api.types.status import PoolStatus
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import ActResults, PoolActs
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.errors import Rejected, Unavailable
from tests.unit.operator.decide.world import World, pool

OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 500}]


@dataclass
class Recorded:
    """Stands for the API server: records the order of writes, and fails those of the status on request."""

    order: list[str] = field(default_factory=list)
    available: bool = True
    rejecting: bool = False
    """Whether statuses and records are rejected."""
    unwritable: str = ""
    """Kind of children whose writes get no answer."""

    def take_pool(self, uid: str, desired: PoolStatus, now: float) -> Urgency:
        return Urgency.CONDITION

    async def write_pool(self, uid: str, urgency: Urgency) -> bool:
        await asyncio.sleep(0)
        if not self.available:
            raise Unavailable(503, "ServiceUnavailable", "no answer")
        self.order.append("status")
        self._reject()
        return True

    def _reject(self) -> None:
        if self.rejecting:
            raise Rejected(403, "Forbidden", "exceeded quota: count/configmaps")

    async def write(self, view: Any, write: Any) -> None:
        if write.kind == self.unwritable:
            raise Unavailable(503, "ServiceUnavailable", "no answer")
        self.order.append(write.kind)

    async def push(self, pushes: Any) -> dict[str, Any]:
        return {}

    async def keep(self, uid: str, record: str | None) -> None:
        self.order.append("record")
        self._reject()

    def add(self, pool: Any, note: Any, now: float) -> None:
        pass

    def forget(self, uid: str) -> None:
        pass

    def request_sweep(self) -> None:
        pass

    async def write_due(self, pool: Any, now: float) -> None:
        pass


def acts_on(server: Recorded) -> PoolActs:
    return PoolActs(
        cast("Children", server),
        cast("Statuses", server),
        cast("Events", server),
        cast("SettingsRecords", server),
    )


def act(server: Recorded, world: World, acts: PoolActs | None = None) -> ActResults:
    view, plan = world.view(), world.run()
    control = cast("PodControl", server)
    executor = acts or acts_on(server)
    return asyncio.run(executor.act(plan, view, control, lambda _: True, world.now))


def test_the_status_of_a_new_pool_is_stored_before_its_first_child() -> None:
    server = Recorded()
    act(server, World(pool=pool(objectives=OBJECTIVES)))
    assert server.order[0] == "status"
    assert "Deployment" in server.order


def test_a_new_pool_gets_no_child_while_its_status_cannot_be_stored() -> None:
    server = Recorded(available=False)
    results = act(server, World(pool=pool(objectives=OBJECTIVES)))
    assert server.order == []
    assert results.failure is not None


def test_children_of_a_known_pool_do_not_wait_for_its_status() -> None:
    known = pool(objectives=OBJECTIVES)
    for status in (PoolStatus(unset_scaling_mode="ByTarget"), PoolStatus(selector="x")):
        server = Recorded(available=False)
        act(server, World(pool=replace(known, status=status)))
        assert "Deployment" in server.order


def test_a_rejected_status_and_a_rejected_record_back_off_and_do_not_fail_the_pool() -> None:
    known = replace(pool(objectives=OBJECTIVES), status=PoolStatus(unset_scaling_mode="ByTarget"))
    server, world = Recorded(rejecting=True), World(pool=known)
    acts = acts_on(server)
    attempts = []
    for _ in range(7):
        assert act(server, world, acts).failure is None
        attempts.append({"status", "record"} <= set(server.order))
        assert "Deployment" in server.order
        server.order.clear()
        world.now += 1
    assert attempts == [True, False, True, False, False, False, True], "after 2 s, and 4 s more"
    acts.forget(known.uid)
    act(server, world, acts)
    assert "status" in server.order


def test_a_new_pool_gets_no_child_while_its_status_is_rejected() -> None:
    server, world = Recorded(rejecting=True), World(pool=pool(objectives=OBJECTIVES))
    acts = acts_on(server)
    for _ in range(3):
        assert act(server, world, acts).failure is None
        world.now += 1
    assert server.order == ["status", "status"], "after 2 s"


def test_the_results_list_the_children_that_were_written_before_a_failure() -> None:
    results = act(Recorded(unwritable="Deployment"), World())
    kinds = [kind for kind, _ in results.stored]
    assert results.failure is not None
    assert "ConfigMap" in kinds
    assert "Deployment" not in kinds
