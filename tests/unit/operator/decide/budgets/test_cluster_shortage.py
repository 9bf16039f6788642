"""A cluster that places fewer devices than a budget grants: those are divided, and one pod stays pending."""

from dataclasses import dataclass, replace

import pytest

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.quota_ledger import QuotaLedger, SurgeRoom
from tests.unit.operator.decide.budgets.requests import BUDGET, quota_request, shares_of, startable


@dataclass
class Cluster:
    """Devices, and a scheduler that binds pending pods to free ones in order of pools."""

    devices: dict[str, int]
    """By placement."""
    ledger: QuotaLedger
    asked: dict[str, int]
    bound: dict[str, int]
    now: float = 0.0

    def live(self, seconds: float, budget: int = 100) -> "Cluster":
        """Tick every 5 s; released devices are free at the next tick."""
        for _ in range(int(seconds // 5)):
            self.now += 5
            leaving = {uid: max(self.bound[uid] - self.asked[uid], 0) for uid in sorted(self.asked)}
            for uid, count in leaving.items():
                self.bound[uid] -= count
            for uid in sorted(self.asked):
                mine = self.ledger.requests[uid].placement
                alike = [
                    request.uid
                    for request in self.ledger.requests.values()
                    if request.placement == mine
                ]
                free = self.devices[mine] - sum(
                    self.bound[other] + leaving[other] for other in alike
                )
                self.bound[uid] += max(min(self.asked[uid] - self.bound[uid], free), 0)
            news = {
                uid: request._replace(
                    deployed=self.asked[uid],
                    staying=self.bound[uid],
                    leaving=leaving[uid],
                    unplaced=self.asked[uid] - self.bound[uid] if self.now > 30 else 0,
                )
                for uid, request in self.ledger.requests.items()
            }
            self.ledger = settle(self.ledger, news, {BUDGET: budget}, (), self.now)
            self.asked = startable(self.ledger)
        return self


def cluster(devices: int, **wanted: tuple[int, int]) -> Cluster:
    claims = {
        uid: quota_request(uid, count, weight=weight) for uid, (count, weight) in wanted.items()
    }
    ledger = settle(QuotaLedger(), claims, {BUDGET: 100}, (), 0.0)
    return Cluster({"": devices}, ledger, startable(ledger), dict.fromkeys(wanted, 0))


def two_kinds(weight: int, others: int = 10) -> Cluster:
    """Return a cluster where `a` waits for a third of two devices of its kind, and `b` requests five of `others`."""
    claims = {
        "a": quota_request("a", 3, placement="a100"),
        "b": quota_request("b", 1, placement="t4", weight=weight),
    }
    ledger = settle(QuotaLedger(), claims, {BUDGET: 100}, (), 0.0)
    bound = {"a": 2, "b": 1}
    world = Cluster({"a100": 2, "t4": others}, ledger, startable(ledger), bound).live(120)
    larger = world.ledger.requests["b"]._replace(requested=5, need=5.0)
    world.ledger = replace(world.ledger, requests={**world.ledger.requests, "b": larger})
    return world


def test_devices_that_the_cluster_places_are_divided_by_weight() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    assert shares_of(world.ledger) == {"a": 1, "b": 3}
    assert world.bound == {"a": 1, "b": 3}
    assert {grant.bound_by for grant in world.ledger.grants.values()} == {"Cluster"}


def test_one_extra_replica_stays_pending_where_it_is_needed_most() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    assert sum(world.asked.values()) == 5


def test_a_division_of_placed_devices_becomes_steady() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    asked, bound = dict(world.asked), dict(world.bound)
    for _ in range(120):
        world.live(5)
        assert (world.asked, world.bound) == (asked, bound)


def test_a_new_node_is_used_up_to_the_requested_count() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    world.devices = {"": 20}
    world.live(300)
    assert world.bound == {"a": 4, "b": 4}
    assert not any(grant.bound_by for grant in world.ledger.grants.values())


def test_a_new_node_is_used_although_the_clock_was_set_back() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(7200)
    world.now, world.devices = 60.0, {"": 20}
    world.live(300)
    assert world.bound == {"a": 4, "b": 4}
    assert not world.ledger.pressures


def test_a_removed_node_lowers_the_division_within_minutes() -> None:
    world = cluster(6, a=(3, 100), b=(3, 100)).live(300)
    world.devices = {"": 2}
    world.bound = {"a": 2, "b": 0}
    world.live(180)
    assert world.bound == {"a": 1, "b": 1}


def test_the_budget_binds_where_it_is_tighter_than_the_cluster() -> None:
    world = cluster(10, a=(4, 100), b=(4, 300)).live(300, budget=4)
    assert world.bound == {"a": 1, "b": 3}
    assert {grant.bound_by for grant in world.ledger.grants.values()} == {"GpuBudget"}


@pytest.mark.parametrize("weight", [100, 300])
def test_a_shortage_on_selected_nodes_limits_no_pool_on_other_nodes(weight: int) -> None:
    world = two_kinds(weight)
    for _ in range(60):
        world.live(5)
        assert world.bound["a"] == 2, "no replica ends for devices that other pools cannot use"
    assert world.bound == {"a": 2, "b": 5}
    assert world.asked == {"a": 3, "b": 5}, "one pod stays pending where devices are short"
    grants = world.ledger.grants
    assert (grants["a"].bound_by, grants["a"].limit, grants["a"].surge) == (
        "Cluster",
        2,
        SurgeRoom.NONE,
    )
    assert (grants["b"].bound_by, grants["b"].surge) == ("", SurgeRoom.FREE)


def test_with_both_kinds_short_one_replica_of_each_stays_pending() -> None:
    world = two_kinds(100, others=3).live(300)
    assert world.bound == {"a": 2, "b": 3}
    assert world.asked == {"a": 3, "b": 4}


def test_the_budget_covers_all_kinds_of_nodes_together() -> None:
    world = two_kinds(100).live(300, budget=4)
    assert world.bound == {"a": 2, "b": 2}
