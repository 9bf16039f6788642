"""Where the cluster places less than a budget grants, what it does place is divided, and one pod is left to wait."""

from dataclasses import dataclass, replace

import pytest

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.ledger import QuotaLedger
from tests.unit.operator.decide.budgets.requests import BUDGET, asked_for, entitled, request


@dataclass
class Cluster:
    """Devices, and a scheduler that gives free ones to whichever pod waits and may have them, the first pool's first."""

    devices: dict[str, int]
    """By placement."""
    ledger: QuotaLedger
    asked: dict[str, int]
    bound: dict[str, int]
    now: float = 0.0

    def live(self, seconds: float, budget: int = 100) -> "Cluster":
        """Tick every 5 s; what is given back is free at the next tick."""
        for _ in range(int(seconds // 5)):
            self.now += 5
            leaving = {uid: max(self.bound[uid] - self.asked[uid], 0) for uid in sorted(self.asked)}
            for uid, count in leaving.items():
                self.bound[uid] -= count
            for uid in sorted(self.asked):
                mine = self.ledger.requests[uid].placement
                alike = [one.uid for one in self.ledger.requests.values() if one.placement == mine]
                free = self.devices[mine] - sum(self.bound[one] + leaving[one] for one in alike)
                self.bound[uid] += max(min(self.asked[uid] - self.bound[uid], free), 0)
            news = {
                uid: replace(
                    one,
                    deployed=self.asked[uid],
                    staying=self.bound[uid],
                    leaving=leaving[uid],
                    unplaced=self.asked[uid] - self.bound[uid] if self.now > 30 else 0,
                )
                for uid, one in self.ledger.requests.items()
            }
            self.ledger = settle(self.ledger, news, {BUDGET: budget}, (), self.now)
            self.asked = asked_for(self.ledger)
        return self


def cluster(devices: int, **wanted: tuple[int, int]) -> Cluster:
    claims = {uid: request(uid, count, weight=weight) for uid, (count, weight) in wanted.items()}
    ledger = settle(QuotaLedger(), claims, {BUDGET: 100}, (), 0.0)
    return Cluster({"": devices}, ledger, asked_for(ledger), dict.fromkeys(wanted, 0))


def two_kinds(weight: int, others: int = 10) -> Cluster:
    """Let `a` wait for a third device of its kind, of which there are two, and `b` come to want five of `others`."""
    claims = {
        "a": request("a", 3, placement="a100"),
        "b": request("b", 1, placement="t4", weight=weight),
    }
    ledger = settle(QuotaLedger(), claims, {BUDGET: 100}, (), 0.0)
    bound = {"a": 2, "b": 1}
    world = Cluster({"a100": 2, "t4": others}, ledger, asked_for(ledger), bound).live(120)
    wish = replace(world.ledger.requests["b"], requested=5, need=5.0)
    world.ledger = replace(world.ledger, requests={**world.ledger.requests, "b": wish})
    return world


def test_what_the_cluster_can_place_is_divided_by_weight() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    assert entitled(world.ledger) == {"a": 1, "b": 3}
    assert world.bound == {"a": 1, "b": 3}
    assert {one.bound_by for one in world.ledger.grants.values()} == {"Cluster"}


def test_one_replica_too_many_is_left_to_wait_where_it_is_needed_most() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    assert sum(world.asked.values()) == 5


def test_a_division_by_the_cluster_comes_to_rest() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    asked, bound = dict(world.asked), dict(world.bound)
    for _ in range(120):
        world.live(5)
        assert (world.asked, world.bound) == (asked, bound)


def test_a_new_node_is_found_and_used_up_to_what_is_wanted() -> None:
    world = cluster(4, a=(4, 100), b=(4, 300)).live(300)
    world.devices = {"": 20}
    world.live(300)
    assert world.bound == {"a": 4, "b": 4}
    assert not any(one.bound_by for one in world.ledger.grants.values())


def test_a_node_that_goes_is_noticed_within_about_a_minute() -> None:
    world = cluster(6, a=(3, 100), b=(3, 100)).live(300)
    world.devices = {"": 2}
    world.bound = {"a": 2, "b": 0}
    world.live(180)
    assert world.bound == {"a": 1, "b": 1}


def test_the_budget_binds_where_it_is_tighter_than_the_cluster() -> None:
    world = cluster(10, a=(4, 100), b=(4, 300)).live(300, budget=4)
    assert world.bound == {"a": 1, "b": 3}
    assert {one.bound_by for one in world.ledger.grants.values()} == {"GpuBudget"}


@pytest.mark.parametrize("weight", [100, 300])
def test_devices_that_a_pods_nodes_lack_are_short_for_nobody_elsewhere(weight: int) -> None:
    world = two_kinds(weight)
    for _ in range(60):
        world.live(5)
        assert world.bound["a"] == 2, "no replica is given up for devices that others cannot use"
    assert world.bound == {"a": 2, "b": 5}
    assert world.asked == {"a": 3, "b": 5}, "one is left to wait where devices are short"
    grants = world.ledger.grants
    assert (grants["a"].bound_by, grants["a"].limit, grants["a"].surge) == ("Cluster", 2, False)
    assert (grants["b"].bound_by, grants["b"].surge) == ("", True)


def test_where_both_kinds_are_short_one_replica_waits_for_each() -> None:
    world = two_kinds(100, others=3).live(300)
    assert world.bound == {"a": 2, "b": 3}
    assert world.asked == {"a": 3, "b": 4}


def test_the_budget_is_one_for_all_kinds_of_nodes() -> None:
    world = two_kinds(100).live(300, budget=4)
    assert world.bound == {"a": 2, "b": 2}
