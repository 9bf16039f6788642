"""Devices go where weight times need is largest, floors first, and nobody has more than his share while others want."""

from dataclasses import replace
from math import ceil, isclose

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_operator.decide.budgets.apportion import (
    Apportionment,
    Limits,
    divide,
    fair_shares,
    fits,
)
from penstock_operator.decide.budgets.settlement import Budgets, settle
from penstock_operator.decide.ledger import QuotaLedger, QuotaRequest
from tests.unit.operator.decide.budgets.requests import (
    BUDGET,
    GPU,
    asked_for,
    entitled,
    obeyed,
    request,
    settled,
)


def test_with_enough_for_all_everybody_has_what_he_wants() -> None:
    assert entitled(settled(7, request("a", 4), request("b", 3))) == {"a": 4, "b": 3}


def test_equal_weights_share_equally() -> None:
    assert entitled(settled(4, request("a", 4), request("b", 3))) == {"a": 2, "b": 2}


def test_shares_follow_weights() -> None:
    assert entitled(settled(4, request("a", 4, weight=300), request("b", 3))) == {"a": 3, "b": 1}
    assert entitled(settled(8, request("a", 9, weight=300), request("b", 9))) == {"a": 6, "b": 2}


def test_floors_come_before_weights() -> None:
    ledger = settled(4, request("a", 4, weight=10_000), request("b", 3, weight=1, floor=2))
    assert entitled(ledger) == {"a": 2, "b": 2}


def test_floors_that_do_not_fit_go_by_weight() -> None:
    ledger = settled(3, request("a", 4, weight=200, floor=4), request("b", 4, floor=4))
    assert entitled(ledger) == {"a": 2, "b": 1}


def test_what_one_pool_does_not_want_the_others_have() -> None:
    assert entitled(settled(4, request("a", 9, weight=1), request("b", 1, weight=1000))) == {
        "a": 3,
        "b": 1,
    }


def test_a_replica_that_is_held_without_need_goes_to_who_needs_it() -> None:
    ledger = settled(4, request("a", 3, need=0.4), request("b", 3, need=3.0))
    assert entitled(ledger) == {"a": 1, "b": 3}


def test_the_last_replica_goes_to_who_most_probably_needs_it() -> None:
    ledger = settled(5, request("a", 3, need=2.2), request("b", 3, need=2.9))
    assert entitled(ledger) == {"a": 2, "b": 3}


def test_a_very_heavy_pool_does_not_have_more_than_its_share() -> None:
    small = [request(f"small-{number}", 3, floor=0) for number in range(10)]
    ledger = settled(10, request("big", 10, weight=1000, floor=0), *small)
    assert entitled(ledger)["big"] == 5


def test_replicas_of_several_devices_take_what_fits_and_leave_the_rest_to_others() -> None:
    ledger = settled(7, request("big", 3, per_replica=4), request("small", 9))
    assert entitled(ledger) == {"big": 1, "small": 3}


def test_a_pool_under_two_budgets_keeps_both() -> None:
    both = request("both", 5, policies=("prod", "team"))
    other = request("other", 5, policies=("team",))
    budgets = {("prod", GPU): 4, ("team", GPU): 6}
    ledger = settle(QuotaLedger(), {"both": both, "other": other}, budgets, (), 0.0)
    assert entitled(ledger) == {"both": 3, "other": 3}


def test_resources_are_divided_apart() -> None:
    other = request("b", 3, resource="example.com/tpu")
    budgets = {BUDGET: 2, ("prod", "example.com/tpu"): 1}
    ledger = settle(QuotaLedger(), {"a": request("a", 3), "b": other}, budgets, (), 0.0)
    assert entitled(ledger) == {"a": 2, "b": 1}


def test_a_pool_under_no_budget_is_granted_nothing_and_refused_nothing() -> None:
    assert settled(4, request("a", 4, policies=("elsewhere",))).grants == {}


NUMBERS = st.integers(0, 12)
CLAIMS = st.builds(
    lambda requested, floor, need, **more: QuotaRequest(
        floor=min(floor, requested), requested=requested, need=min(need, float(requested)), **more
    ),
    uid=st.integers(0, 99).map(str),
    resource=st.just(GPU),
    per_replica=st.sampled_from((1, 1, 1, 2, 4)),
    weight=st.integers(1, 10_000),
    floor=st.integers(0, 3),
    requested=NUMBERS,
    need=st.floats(0, 12),
    deployed=NUMBERS,
    staying=NUMBERS,
    leaving=st.integers(0, 3),
    unplaced=st.sampled_from((0, 0, 0, 1)),
    policies=st.sampled_from((("prod",), ("team",), ("prod", "team"))),
)
MANY = st.lists(CLAIMS, min_size=1, max_size=8, unique_by=lambda one: one.uid)
LIMITS = st.builds(
    lambda prod, team: {("prod", GPU): prod, ("team", GPU): team},
    st.integers(0, 40),
    st.integers(0, 40),
)
TIMES = st.floats(0, 1e6)


def divided(claims: list[QuotaRequest], limits: Limits) -> dict[str, int]:
    before = {one.uid: one.deployed for one in claims}
    return divide(claims, limits, before, {one.uid: one.floor for one in claims})


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_no_budget_is_ever_overspent_and_nobody_has_more_than_he_wants(
    claims: list[QuotaRequest], limits: Limits
) -> None:
    counts = divided(claims, limits)
    assert fits(claims, limits, counts)
    assert all(0 <= counts[one.uid] <= one.requested for one in claims)


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_floors_hold_wherever_they_fit(claims: list[QuotaRequest], limits: Limits) -> None:
    floors = {one.uid: one.floor for one in claims}
    counts = divided(claims, limits)
    if fits(claims, limits, floors):
        assert all(counts[uid] >= floor for uid, floor in floors.items())


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_nothing_that_is_wanted_and_fits_is_left_over(
    claims: list[QuotaRequest], limits: Limits
) -> None:
    counts = divided(claims, limits)
    for one in claims:
        if counts[one.uid] < one.requested:
            assert not fits(claims, limits, {**counts, one.uid: counts[one.uid] + 1})


@given(st.lists(CLAIMS, min_size=2, max_size=8, unique_by=lambda one: one.uid), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_under_contention_nobody_has_a_whole_replica_more_than_his_weighted_share(
    claims: list[QuotaRequest], count: int
) -> None:
    claims = [
        replace(one, per_replica=1, policies=("prod",), need=float(one.requested)) for one in claims
    ]
    counts = divided(claims, {BUDGET: count})
    parts = [
        Apportionment(float(one.weight), float(one.floor), float(one.requested)) for one in claims
    ]
    shares = fair_shares(parts, float(count))
    if sum(one.requested for one in claims) > count >= sum(one.floor for one in claims):
        for one, share in zip(claims, shares, strict=True):
            assert counts[one.uid] <= ceil(share - 1e-6)


@given(MANY, st.floats(0.5, 60))
@settings(max_examples=40, deadline=None)
def test_shares_add_up_and_stay_between_floor_and_demand(
    claims: list[QuotaRequest], amount: float
) -> None:
    parts = [
        Apportionment(float(one.weight), float(one.floor), float(one.requested)) for one in claims
    ]
    shares = fair_shares(parts, amount)
    demand = sum(part.demand for part in parts)
    assert isclose(sum(shares), min(amount, demand), rel_tol=1e-6, abs_tol=1e-6)
    if sum(part.floor for part in parts) <= amount:
        for part, share in zip(parts, shares, strict=True):
            assert part.floor - 1e-6 <= share <= part.demand + 1e-6


@given(st.lists(MANY, min_size=1, max_size=4), LIMITS, TIMES)
@settings(max_examples=80, deadline=None)
def test_nobody_starts_what_others_still_hold_whatever_comes_in_whatever_order(
    rounds: list[list[QuotaRequest]], limits: Budgets, begin: float
) -> None:
    ledger = QuotaLedger()
    for number, claims in enumerate(rounds):
        news = {one.uid: one for one in claims}
        ledger = settle(ledger, news, limits, (), begin + 5 * number)
        for key, count in limits.items():
            members = [one for one in ledger.requests.values() if key[0] in one.policies]
            held = sum(one.committed for one in members)
            asked = asked_for(ledger)
            after = sum(
                replace(one, deployed=max(asked[one.uid], one.deployed)).committed
                for one in members
            )
            assert after <= max(count, held)
        assert all(
            0 <= grant.replicas <= ledger.requests[uid].requested
            for uid, grant in ledger.grants.items()
        )


@given(MANY, LIMITS)
@settings(max_examples=40, deadline=None)
def test_steady_claims_come_to_rest(claims: list[QuotaRequest], limits: Budgets) -> None:
    claims = [replace(one, unplaced=0, leaving=0) for one in claims]
    ledger = settle(QuotaLedger(), {one.uid: one for one in claims}, limits, (), 0.0)
    for number in range(1, 40):
        ledger = obeyed(ledger, limits, 5.0 * number)
    last = asked_for(ledger)
    for number in range(40, 60):
        ledger = obeyed(ledger, limits, 5.0 * number)
        assert asked_for(ledger) == last
    assert last == entitled(ledger)
