"""Stabilization of shares: a pool loses replicas after a minute and drains them; budget edits apply at once."""

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.quota_ledger import QuotaLedger, QuotaRequest, SurgeRoom, SurgeStage
from tests.unit.operator.decide.budgets.requests import (
    BUDGET,
    quota_request,
    rooms,
    running,
    settled,
    shares_of,
    startable,
)

NEXT = SurgeStage.NEXT


def ticks(
    ledger: QuotaLedger, count: int, begin: float, seconds: float, *changed: QuotaRequest
) -> QuotaLedger:
    """Tick every 5 s; each grant is deployed at once."""
    now = begin
    while now < begin + seconds:
        now += 5
        news = {item.uid: item for item in running(ledger)}
        for change in changed:
            live = news.get(change.uid, change)
            news[change.uid] = change._replace(deployed=live.deployed, staying=live.staying)
        ledger = settle(ledger, news, {BUDGET: count}, (), now)
    return ledger


def test_a_share_that_other_pools_need_stays_for_a_minute() -> None:
    ledger = ticks(settled(4, quota_request("a", 3), quota_request("b", 1)), 4, 0, 10)
    assert startable(ledger) == {"a": 3, "b": 1}
    ledger = ticks(ledger, 4, 10, 55, quota_request("b", 3))
    assert startable(ledger) == {"a": 3, "b": 1}
    ledger = ticks(ledger, 4, 65, 15, quota_request("b", 3))
    assert startable(ledger) == {"a": 2, "b": 2}


def test_a_share_that_other_pools_need_stays_for_a_minute_after_the_clock_was_set_back() -> None:
    ledger = ticks(settled(4, quota_request("a", 3), quota_request("b", 1)), 4, 7200, 10)
    ledger = ticks(ledger, 4, 7210, 10, quota_request("b", 3))
    assert ledger.losing
    ledger = ticks(ledger, 4, 0, 55, quota_request("b", 3))
    assert startable(ledger) == {"a": 3, "b": 1}
    ledger = ticks(ledger, 4, 55, 15, quota_request("b", 3))
    assert startable(ledger) == {"a": 2, "b": 2}


def test_a_short_request_takes_no_replica_from_another_pool() -> None:
    ledger = ticks(settled(4, quota_request("a", 3), quota_request("b", 1)), 4, 0, 10)
    for turn in range(10):
        ledger = ticks(ledger, 4, 10 + 60 * turn, 40, quota_request("b", 3))
        ledger = ticks(ledger, 4, 50 + 60 * turn, 20, quota_request("b", 1))
        assert startable(ledger) == {"a": 3, "b": 1}


def test_a_need_that_varies_by_less_than_a_tenth_moves_no_replica() -> None:
    ledger = ticks(
        settled(5, quota_request("a", 3, need=2.6), quota_request("b", 3, need=2.5)), 5, 0, 10
    )
    assert startable(ledger) == {"a": 3, "b": 2}
    for turn in range(40):
        need = 2.6 + 0.05 * (-1) ** (turn // 15)
        ledger = ticks(ledger, 5, 10 + 5 * turn, 5, quota_request("b", 3, need=need))
        assert startable(ledger) == {"a": 3, "b": 2}


def test_the_gaining_pool_waits_until_the_losing_pools_pods_are_gone() -> None:
    before = settled(
        4,
        quota_request("a", 3, deployed=3, staying=3),
        quota_request("b", 1, deployed=1, staying=1),
    )
    news = {
        "a": quota_request("a", 2, deployed=2, staying=2, leaving=1),
        "b": quota_request("b", 2, deployed=1, staying=1),
    }
    draining = settle(before, news, {BUDGET: 4}, (), 5.0)
    assert shares_of(draining) == {"a": 2, "b": 2}
    assert startable(draining) == {"a": 2, "b": 1}
    news["a"] = quota_request("a", 2, deployed=2, staying=2)
    assert startable(settle(draining, news, {BUDGET: 4}, (), 10.0)) == {"a": 2, "b": 2}


def test_a_lowered_budget_applies_at_once() -> None:
    ledger = ticks(settled(6, quota_request("a", 4), quota_request("b", 3)), 6, 0, 10)
    ledger = ticks(ledger, 2, 10, 5)
    assert startable(ledger) == {"a": 1, "b": 1}


def test_a_raised_budget_applies_at_once() -> None:
    ledger = ticks(settled(2, quota_request("a", 4), quota_request("b", 3)), 2, 0, 10)
    ledger = ticks(ledger, 7, 10, 5)
    assert startable(ledger) == {"a": 4, "b": 3}


def test_a_floor_does_not_wait_for_stabilization() -> None:
    ledger = ticks(settled(4, quota_request("a", 4, weight=10_000, floor=1)), 4, 0, 10)
    ledger = ticks(ledger, 4, 10, 5, quota_request("b", 2, weight=1, floor=2))
    assert shares_of(ledger) == {"a": 2, "b": 2}


def test_a_rollout_may_surge_only_with_a_free_device() -> None:
    tight = settled(
        4,
        quota_request("a", 2, deployed=2, staying=2),
        quota_request("b", 2, deployed=2, staying=2),
    )
    roomy = settled(
        5,
        quota_request("a", 2, deployed=2, staying=2),
        quota_request("b", 2, deployed=2, staying=2),
    )
    surging = settled(
        5,
        quota_request("a", 2, deployed=2, staying=3, surge=SurgeStage.BOUND),
        quota_request("b", 2, deployed=2, staying=2),
    )
    assert rooms(tight) == {"a": SurgeRoom.NONE, "b": SurgeRoom.NONE}
    assert rooms(roomy) == {"a": SurgeRoom.FREE, "b": SurgeRoom.FREE}
    assert rooms(surging) == {"a": SurgeRoom.FREE, "b": SurgeRoom.TAKEN}


def test_rollouts_get_a_free_device_one_after_another() -> None:
    steady = quota_request("c", 1, deployed=1, staying=1)
    rolling = [quota_request(uid, 2, deployed=2, staying=2, surge=NEXT) for uid in ("a", "b")]
    first = settled(6, steady, *rolling)
    assert rooms(first) == {"a": SurgeRoom.FREE, "b": SurgeRoom.TAKEN, "c": SurgeRoom.TAKEN}
    begun = [rolling[0], rolling[1]._replace(surge=SurgeStage.BEGUN)]
    assert rooms(settled(6, steady, *begun)) == {
        "a": SurgeRoom.TAKEN,
        "b": SurgeRoom.FREE,  # before its additional pod is bound, and once it is
        "c": SurgeRoom.TAKEN,
    }
    assert rooms(settled(7, steady, *rolling)) == {
        "a": SurgeRoom.FREE,
        "b": SurgeRoom.FREE,
        "c": SurgeRoom.TAKEN,
    }


def test_a_rollout_that_was_granted_the_free_device_keeps_it() -> None:
    a, b = (quota_request(uid, 2, deployed=2, staying=2) for uid in ("a", "b"))
    first = settled(5, a, b._replace(surge=NEXT))
    assert rooms(first)["b"] is SurgeRoom.FREE
    second = settle(first, {"a": a._replace(surge=NEXT)}, {BUDGET: 5}, (), 1.0)
    assert rooms(second) == {"a": SurgeRoom.TAKEN, "b": SurgeRoom.FREE}
    assert second.grants["a"].ahead == ("b",)


def test_devices_of_terminating_pods_are_free_for_a_surge_once_they_are_gone() -> None:
    drains = quota_request("a", 2, deployed=2, staying=2, leaving=1, surge=NEXT)
    assert rooms(settled(3, drains)) == {"a": SurgeRoom.TAKEN}
    assert rooms(settled(3, drains._replace(leaving=0))) == {"a": SurgeRoom.FREE}
    assert rooms(settled(4, drains)) == {"a": SurgeRoom.FREE}
