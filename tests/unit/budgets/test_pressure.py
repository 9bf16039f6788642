"""Where the cluster places less than a budget grants, what it does place is divided, and one pod is left to wait."""

from dataclasses import dataclass, replace

from penstock_operator.decide.budgets.book import settle
from penstock_operator.decide.budgets.ledger import Ledger
from tests.unit.budgets.claims import BUDGET, asked_for, claim, entitled


@dataclass
class Cluster:
    """Devices, and a scheduler that gives free ones to whichever pod waits, the first pool's first."""

    devices: int
    ledger: Ledger
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
                free = self.devices - sum(self.bound.values()) - sum(leaving.values())
                self.bound[uid] += max(min(self.asked[uid] - self.bound[uid], free), 0)
            news = {
                uid: replace(
                    one,
                    asked=self.asked[uid],
                    staying=self.bound[uid],
                    leaving=leaving[uid],
                    unplaced=self.asked[uid] - self.bound[uid] if self.now > 30 else 0,
                )
                for uid, one in self.ledger.claims.items()
            }
            self.ledger = settle(self.ledger, news, {BUDGET: budget}, (), self.now)
            self.asked = asked_for(self.ledger)
        return self


def cluster(devices: int, **wanted: tuple[int, int]) -> Cluster:
    claims = {uid: claim(uid, count, weight=weight) for uid, (count, weight) in wanted.items()}
    ledger = settle(Ledger(), claims, {BUDGET: 100}, (), 0.0)
    return Cluster(devices, ledger, asked_for(ledger), dict.fromkeys(wanted, 0))


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
    world.devices = 20
    world.live(300)
    assert world.bound == {"a": 4, "b": 4}
    assert not any(one.bound_by for one in world.ledger.grants.values())


def test_a_node_that_goes_is_noticed_within_about_a_minute() -> None:
    world = cluster(6, a=(3, 100), b=(3, 100)).live(300)
    world.devices = 2
    world.bound = {"a": 2, "b": 0}
    world.live(180)
    assert world.bound == {"a": 1, "b": 1}


def test_the_budget_binds_where_it_is_tighter_than_the_cluster() -> None:
    world = cluster(10, a=(4, 100), b=(4, 300)).live(300, budget=4)
    assert world.bound == {"a": 1, "b": 3}
    assert {one.bound_by for one in world.ledger.grants.values()} == {"GpuBudget"}
