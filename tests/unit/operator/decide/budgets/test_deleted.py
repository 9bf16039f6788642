"""Deleted pools keep the devices that their pods use, and those that the workload they leave may still start."""

import pytest

from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.decide.status.policies import budget_statuses
from tests.unit.operator.decide.budgets.fleet import Fleet, budget, delete_and_end_pods, fleet_of


def used(fleet: Fleet) -> int | None:
    (status,) = budget_statuses(fleet.policies[0], fleet.ledger)
    return status.used


def test_devices_of_a_deleted_pool_are_free_once_its_pods_have_ended() -> None:
    fleet = fleet_of(4, a=2, b=4)
    assert fleet.replicas() == {"a": 2, "b": 2}
    delete_and_end_pods(fleet)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pool_whose_pods_outlive_it_keeps_its_devices(restarted: bool) -> None:
    fleet = fleet_of(4, a=4)
    fleet.delete("a")
    fleet.add("b", replicas=4)
    for _ in range(5):
        if restarted:
            fleet.ledger = QuotaLedger()
        fleet.run()
        assert fleet.replicas() == {"b": 0}
        assert used(fleet) == 4
        fleet.worlds["b"].now += 200
    fleet.leave("a", 0)
    fleet.run()
    assert fleet.replicas() == {"b": 4}


def test_pods_that_a_deleted_pools_workload_may_start_count_before_they_are_bound() -> None:
    fleet = Fleet((budget(4),))
    fleet.add("a", replicas=3)
    fleet.run()
    fleet.delete("a")
    fleet.add("b", replicas=4)
    for _ in range(3):
        fleet.run()
        assert fleet.replicas() == {"b": 1}
    assert used(fleet) == 0


def test_a_workload_that_is_scaled_up_after_the_deletion_counts_what_its_pool_was_granted() -> None:
    fleet = fleet_of(6, a=2, b=6)
    fleet.delete("a")
    fleet.leave("a", 2, replicas=1000)
    for _ in range(3):
        fleet.run()
    assert fleet.replicas() == {"b": 4}
    fleet.leave("a", 3, replicas=1000)
    fleet.run()
    assert used(fleet) == 3 + 4


def test_a_deleted_pool_counts_under_the_policies_that_select_it_now() -> None:
    fleet = fleet_of(4, a=4)
    fleet.delete("a")
    fleet.add("b", replicas=4)
    other = {"matchLabels": {"app": "other"}}
    fleet.policies = (budget(4, poolSelector=other),)
    fleet.run()
    assert fleet.replicas() == {"b": 4}
