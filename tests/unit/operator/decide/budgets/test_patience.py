"""Who loses replicas does so after a minute, drains, and is waited for; edits of the budget act at once."""

from dataclasses import replace

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.ledger import QuotaLedger, QuotaRequest
from tests.unit.operator.decide.budgets.requests import (
    BUDGET,
    asked_for,
    entitled,
    request,
    running,
    settled,
)


def lived(
    ledger: QuotaLedger, count: int, begin: float, seconds: float, *changed: QuotaRequest
) -> QuotaLedger:
    """Tick every 5 s; each pool does at once what it is granted."""
    now = begin
    while now < begin + seconds:
        now += 5
        news = {one.uid: one for one in running(ledger)}
        for one in changed:
            held = news.get(one.uid, one)
            news[one.uid] = replace(one, deployed=held.deployed, staying=held.staying)
        ledger = settle(ledger, news, {BUDGET: count}, (), now)
    return ledger


def test_a_share_that_others_now_want_is_kept_for_a_minute() -> None:
    ledger = lived(settled(4, request("a", 3), request("b", 1)), 4, 0, 10)
    assert asked_for(ledger) == {"a": 3, "b": 1}
    ledger = lived(ledger, 4, 10, 55, request("b", 3))
    assert asked_for(ledger) == {"a": 3, "b": 1}
    ledger = lived(ledger, 4, 65, 15, request("b", 3))
    assert asked_for(ledger) == {"a": 2, "b": 2}


def test_a_passing_wish_takes_nothing_from_anybody() -> None:
    ledger = lived(settled(4, request("a", 3), request("b", 1)), 4, 0, 10)
    for turn in range(10):
        ledger = lived(ledger, 4, 10 + 60 * turn, 40, request("b", 3))
        ledger = lived(ledger, 4, 50 + 60 * turn, 20, request("b", 1))
        assert asked_for(ledger) == {"a": 3, "b": 1}


def test_a_need_that_wobbles_by_less_than_a_tenth_moves_nothing() -> None:
    ledger = lived(settled(5, request("a", 3, need=2.6), request("b", 3, need=2.5)), 5, 0, 10)
    assert asked_for(ledger) == {"a": 3, "b": 2}
    for turn in range(40):
        need = 2.6 + 0.05 * (-1) ** (turn // 15)
        ledger = lived(ledger, 5, 10 + 5 * turn, 5, request("b", 3, need=need))
        assert asked_for(ledger) == {"a": 3, "b": 2}


def test_the_gaining_pool_waits_until_the_losing_pools_pods_are_gone() -> None:
    before = settled(
        4, request("a", 3, deployed=3, staying=3), request("b", 1, deployed=1, staying=1)
    )
    news = {
        "a": request("a", 2, deployed=2, staying=2, leaving=1),
        "b": request("b", 2, deployed=1, staying=1),
    }
    draining = settle(before, news, {BUDGET: 4}, (), 5.0)
    assert entitled(draining) == {"a": 2, "b": 2}
    assert asked_for(draining) == {"a": 2, "b": 1}
    news["a"] = request("a", 2, deployed=2, staying=2)
    assert asked_for(settle(draining, news, {BUDGET: 4}, (), 10.0)) == {"a": 2, "b": 2}


def test_a_budget_that_is_lowered_is_obeyed_at_once() -> None:
    ledger = lived(settled(6, request("a", 4), request("b", 3)), 6, 0, 10)
    ledger = lived(ledger, 2, 10, 5)
    assert asked_for(ledger) == {"a": 1, "b": 1}


def test_a_budget_that_is_raised_is_used_at_once() -> None:
    ledger = lived(settled(2, request("a", 4), request("b", 3)), 2, 0, 10)
    ledger = lived(ledger, 7, 10, 5)
    assert asked_for(ledger) == {"a": 4, "b": 3}


def test_a_floor_does_not_wait_for_patience() -> None:
    ledger = lived(settled(4, request("a", 4, weight=10_000, floor=1)), 4, 0, 10)
    ledger = lived(ledger, 4, 10, 5, request("b", 2, weight=1, floor=2))
    assert entitled(ledger) == {"a": 2, "b": 2}


def test_a_rollout_may_surge_only_where_a_device_is_to_spare() -> None:
    tight = settled(
        4, request("a", 2, deployed=2, staying=2), request("b", 2, deployed=2, staying=2)
    )
    roomy = settled(
        5, request("a", 2, deployed=2, staying=2), request("b", 2, deployed=2, staying=2)
    )
    surging = settled(
        5, request("a", 2, deployed=2, staying=3), request("b", 2, deployed=2, staying=2)
    )
    assert [one.surge for one in tight.grants.values()] == [False, False]
    assert [one.surge for one in roomy.grants.values()] == [True, True]
    assert surging.grants["a"].surge  # its own surge is no reason to end it
    assert not surging.grants["b"].surge
