"""Division of devices: floors first, then by weight and need, up to the fair share under contention."""

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
from penstock_operator.decide.quota_ledger import QuotaLedger, QuotaRequest
from tests.unit.operator.decide.budgets.requests import (
    BUDGET,
    GPU,
    deployed_at_once,
    quota_request,
    settled,
    shares_of,
    startable,
)


def test_with_enough_devices_every_request_is_granted() -> None:
    assert shares_of(settled(7, quota_request("a", 4), quota_request("b", 3))) == {"a": 4, "b": 3}


def test_equal_weights_share_equally() -> None:
    assert shares_of(settled(4, quota_request("a", 4), quota_request("b", 3))) == {"a": 2, "b": 2}


def test_shares_follow_weights() -> None:
    assert shares_of(settled(4, quota_request("a", 4, weight=300), quota_request("b", 3))) == {
        "a": 3,
        "b": 1,
    }
    assert shares_of(settled(8, quota_request("a", 9, weight=300), quota_request("b", 9))) == {
        "a": 6,
        "b": 2,
    }


def test_floors_come_before_weights() -> None:
    ledger = settled(
        4, quota_request("a", 4, weight=10_000), quota_request("b", 3, weight=1, floor=2)
    )
    assert shares_of(ledger) == {"a": 2, "b": 2}


def test_floors_that_do_not_fit_go_by_weight() -> None:
    ledger = settled(3, quota_request("a", 4, weight=200, floor=4), quota_request("b", 4, floor=4))
    assert shares_of(ledger) == {"a": 2, "b": 1}


def test_devices_that_one_pool_does_not_request_go_to_the_others() -> None:
    assert shares_of(
        settled(4, quota_request("a", 9, weight=1), quota_request("b", 1, weight=1000))
    ) == {
        "a": 3,
        "b": 1,
    }


def test_a_replica_without_need_goes_to_the_pool_that_needs_it() -> None:
    ledger = settled(4, quota_request("a", 3, need=0.4), quota_request("b", 3, need=3.0))
    assert shares_of(ledger) == {"a": 1, "b": 3}


def test_the_last_replica_goes_to_the_pool_that_most_probably_needs_it() -> None:
    ledger = settled(5, quota_request("a", 3, need=2.2), quota_request("b", 3, need=2.9))
    assert shares_of(ledger) == {"a": 2, "b": 3}


def test_a_very_heavy_pool_gets_no_more_than_its_share() -> None:
    small = [quota_request(f"small-{number}", 3, floor=0) for number in range(10)]
    ledger = settled(10, quota_request("big", 10, weight=1000, floor=0), *small)
    assert shares_of(ledger)["big"] == 5


def test_replicas_of_several_devices_take_what_fits_and_leave_the_rest_to_others() -> None:
    ledger = settled(7, quota_request("big", 3, per_replica=4), quota_request("small", 9))
    assert shares_of(ledger) == {"big": 1, "small": 3}


def test_both_budgets_of_a_pool_apply() -> None:
    both = quota_request("both", 5, policies=("prod", "team"))
    other = quota_request("other", 5, policies=("team",))
    budgets = {("prod", GPU): 4, ("team", GPU): 6}
    ledger = settle(QuotaLedger(), {"both": both, "other": other}, budgets, (), 0.0)
    assert shares_of(ledger) == {"both": 3, "other": 3}


def test_each_resource_is_divided_separately() -> None:
    other = quota_request("b", 3, resource="example.com/tpu")
    budgets = {BUDGET: 2, ("prod", "example.com/tpu"): 1}
    ledger = settle(QuotaLedger(), {"a": quota_request("a", 3), "b": other}, budgets, (), 0.0)
    assert shares_of(ledger) == {"a": 2, "b": 1}


def test_a_pool_without_a_budget_has_no_grant() -> None:
    assert settled(4, quota_request("a", 4, policies=("elsewhere",))).grants == {}


NUMBERS = st.integers(0, 12)
REQUESTS = st.builds(
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
MANY = st.lists(REQUESTS, min_size=1, max_size=8, unique_by=lambda item: item.uid)
LIMITS = st.builds(
    lambda prod, team: {("prod", GPU): prod, ("team", GPU): team},
    st.integers(0, 40),
    st.integers(0, 40),
)
TIMES = st.floats(0, 1e6)


def divided(requests: list[QuotaRequest], limits: Limits) -> dict[str, int]:
    before = {request.uid: request.deployed for request in requests}
    return divide(requests, limits, before, {request.uid: request.floor for request in requests})


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_no_budget_is_exceeded_and_no_pool_gets_more_than_it_requests(
    requests: list[QuotaRequest], limits: Limits
) -> None:
    counts = divided(requests, limits)
    assert fits(requests, limits, counts)
    assert all(0 <= counts[request.uid] <= request.requested for request in requests)


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_floors_that_fit_are_granted(requests: list[QuotaRequest], limits: Limits) -> None:
    floors = {request.uid: request.floor for request in requests}
    counts = divided(requests, limits)
    if fits(requests, limits, floors):
        assert all(counts[uid] >= floor for uid, floor in floors.items())


@given(MANY, LIMITS)
@settings(max_examples=80, deadline=None)
def test_every_requested_replica_that_fits_is_granted(
    requests: list[QuotaRequest], limits: Limits
) -> None:
    counts = divided(requests, limits)
    for request in requests:
        if counts[request.uid] < request.requested:
            assert not fits(requests, limits, {**counts, request.uid: counts[request.uid] + 1})


@given(
    st.lists(REQUESTS, min_size=2, max_size=8, unique_by=lambda item: item.uid), st.integers(1, 40)
)
@settings(max_examples=80, deadline=None)
def test_under_contention_no_pool_exceeds_its_weighted_share_by_a_replica(
    requests: list[QuotaRequest], count: int
) -> None:
    requests = [
        request._replace(per_replica=1, policies=("prod",), need=float(request.requested))
        for request in requests
    ]
    counts = divided(requests, {BUDGET: count})
    parts = [
        Apportionment(float(request.weight), float(request.floor), float(request.requested))
        for request in requests
    ]
    shares = fair_shares(parts, float(count))
    if (
        sum(request.requested for request in requests)
        > count
        >= sum(request.floor for request in requests)
    ):
        for member, share in zip(requests, shares, strict=True):
            assert counts[member.uid] <= ceil(share - 1e-6)


@given(MANY, st.floats(0.5, 60))
@settings(max_examples=40, deadline=None)
def test_shares_add_up_and_stay_between_floor_and_demand(
    requests: list[QuotaRequest], amount: float
) -> None:
    parts = [
        Apportionment(float(request.weight), float(request.floor), float(request.requested))
        for request in requests
    ]
    shares = fair_shares(parts, amount)
    demand = sum(part.demand for part in parts)
    assert isclose(sum(shares), min(amount, demand), rel_tol=1e-6, abs_tol=1e-6)
    if sum(part.floor for part in parts) <= amount:
        for part, share in zip(parts, shares, strict=True):
            assert part.floor - 1e-6 <= share <= part.demand + 1e-6


@given(st.lists(MANY, min_size=1, max_size=4), LIMITS, TIMES)
@settings(max_examples=80, deadline=None)
def test_devices_in_use_are_never_granted_again_whatever_the_order_of_requests(
    rounds: list[list[QuotaRequest]], limits: Budgets, begin: float
) -> None:
    ledger = QuotaLedger()
    for number, requests in enumerate(rounds):
        news = {request.uid: request for request in requests}
        ledger = settle(ledger, news, limits, (), begin + 5 * number)
        for key, count in limits.items():
            members = [
                request for request in ledger.requests.values() if key[0] in request.policies
            ]
            committed = sum(member.committed for member in members)
            now = startable(ledger)
            after = sum(
                member._replace(deployed=max(now[member.uid], member.deployed)).committed
                for member in members
            )
            assert after <= max(count, committed)
        assert all(
            0 <= grant.replicas <= ledger.requests[uid].requested
            for uid, grant in ledger.grants.items()
        )


@given(MANY, LIMITS)
@settings(max_examples=40, deadline=None)
def test_steady_requests_lead_to_steady_grants(
    requests: list[QuotaRequest], limits: Budgets
) -> None:
    requests = [request._replace(unplaced=0, leaving=0) for request in requests]
    ledger = settle(QuotaLedger(), {request.uid: request for request in requests}, limits, (), 0.0)
    for number in range(1, 40):
        ledger = deployed_at_once(ledger, limits, 5.0 * number)
    last = startable(ledger)
    for number in range(40, 60):
        ledger = deployed_at_once(ledger, limits, 5.0 * number)
        assert startable(ledger) == last
    assert last == shares_of(ledger)
