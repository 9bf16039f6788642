"""Which waiting request is released or refused, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.hold import HoldLimits
from penstock_gateway.hold.queue import (
    FIRST_GUESS_SECONDS,
    FIRST_RELEASES,
    GONE_SECONDS,
    LOWEST_CLASS,
    OPENING_SECONDS,
    RECHECK_SECONDS,
    RELEASE_GROWTH,
    HeldQueue,
    HeldRequest,
    Refusal,
)

LIMITS = HoldLimits(max_seconds=60, max_requests=4, per_pod=2)
NOW = 1000.0


def request(number: int, *, rank: int = LOWEST_CLASS, arrived: float = NOW) -> HeldRequest:
    return HeldRequest(rank, arrived, number, entered=arrived)


def queue(*requests: HeldRequest, limits: HoldLimits = LIMITS) -> HeldQueue:
    waiting = HeldQueue(limits)
    assert all(map(waiting.add, requests))
    return waiting


def numbers(requests: list[HeldRequest]) -> list[int]:
    return [item.number for item in requests]


def test_nothing_is_released_before_a_pod_is_in_force() -> None:
    waiting = queue(request(0))
    assert waiting.releasable(0, NOW) == []
    waiting.set_pods(1, NOW)
    assert numbers(waiting.releasable(0, NOW)) == [0]
    waiting.set_pods(0, NOW)
    assert waiting.releasable(0, NOW) == []


def test_a_higher_class_goes_first_and_within_a_class_the_first_to_arrive() -> None:
    waiting = queue(
        request(0), request(1, rank=2), request(2, rank=1), request(3, rank=2, arrived=9)
    )
    waiting.set_pods(2, NOW)
    assert numbers(waiting.releasable(0, NOW)) == [2, 3, 1, 0]


def test_pods_get_as_many_as_they_have_room_for_and_one_in_any_case() -> None:
    waiting = queue(*map(request, range(4)))
    waiting.set_pods(1, NOW)
    assert numbers(waiting.releasable(0, NOW)) == [0, 1]
    assert numbers(waiting.releasable(1, NOW)) == [0]
    assert numbers(waiting.releasable(99, NOW)) == [0]


def test_few_are_released_at_first_so_that_the_first_answer_waits_for_few() -> None:
    waiting = queue(*map(request, range(300)), limits=HoldLimits(60, 1000, per_pod=100))
    waiting.set_pods(2, NOW)
    steps = []
    while waiting.requests:
        batch = waiting.releasable(0, NOW)
        steps.append(len(batch))
        for item in batch:
            waiting.remove(item.number)
    few = 2 * FIRST_RELEASES
    assert steps == [few, few * RELEASE_GROWTH, 200, 300 - few - few * RELEASE_GROWTH - 200]
    assert waiting.opens(NOW)
    assert not waiting.opens(NOW + OPENING_SECONDS)
    waiting.set_pods(0, NOW + 9)
    assert not waiting.opens(NOW + 9)
    waiting.set_pods(1, NOW + 10)
    waiting.add(request(301))
    assert waiting.opens(NOW + 10)
    assert waiting.step == FIRST_RELEASES


def test_a_request_that_comes_while_pods_are_in_force_waits_a_moment() -> None:
    waiting = HeldQueue(LIMITS)
    waiting.set_pods(1, NOW)
    waiting.add(request(0, arrived=NOW + 5))
    assert waiting.releasable(0, NOW + 5.1) == []
    assert numbers(waiting.releasable(0, NOW + 5 + RECHECK_SECONDS)) == [0]


def test_a_request_beyond_the_bound_is_not_held() -> None:
    waiting = queue(*map(request, range(4)))
    assert not waiting.add(request(4))
    waiting.remove(0)
    assert waiting.add(request(4))


def test_a_request_expires_by_the_pools_bound_or_by_its_clients() -> None:
    impatient = HeldRequest(LOWEST_CLASS, NOW, 1, entered=NOW, timeout_seconds=5)
    waiting = queue(request(0), impatient)
    assert waiting.expired(NOW + 4) == []
    assert waiting.expired(NOW + 5) == [(impatient, Refusal.DEADLINE)]
    waiting.remove(1)
    assert waiting.expired(NOW + 60) == [(request(0), Refusal.EXPIRED)]


def test_the_requests_of_a_deleted_pool_end_once_its_service_cannot_come_back() -> None:
    waiting = queue(request(0), request(1))
    waiting.gone_at = NOW
    assert waiting.expired(NOW + GONE_SECONDS - 0.1) == []
    ended = waiting.expired(NOW + GONE_SECONDS)
    assert [(item.number, reason) for item, reason in ended] == [
        (0, Refusal.GONE),
        (1, Refusal.GONE),
    ]


def test_a_request_that_a_pod_computed_before_it_died_waits_as_long_as_a_new_one() -> None:
    waiting = queue(HeldRequest(LOWEST_CLASS, NOW - 1000, 0, entered=NOW))
    assert waiting.since == NOW
    assert waiting.expired(NOW + 59) == []
    assert [reason for _, reason in waiting.expired(NOW + 60)] == [Refusal.EXPIRED]
    waiting.set_pods(1, NOW + 20)
    assert waiting.start_seconds == 20


def test_the_time_to_a_retry_is_that_of_the_last_start() -> None:
    waiting = queue(request(0))
    assert waiting.retry_seconds(NOW) == FIRST_GUESS_SECONDS
    assert waiting.retry_seconds(NOW + 12) == FIRST_GUESS_SECONDS - 12
    waiting.set_pods(1, NOW + 20)
    assert waiting.retry_seconds(NOW + 20) == 1
    waiting.remove(0)
    waiting.set_pods(0, NOW + 50)
    assert waiting.retry_seconds(NOW + 50) == 20
    waiting.add(request(1, arrived=NOW + 50))
    assert waiting.retry_seconds(NOW + 55) == 15
    assert waiting.retry_seconds(NOW + 90) == 1


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 100)), max_size=30),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 20),
)
def test_every_request_is_released_once_and_in_order(
    arrivals: list[tuple[int, float]], per_pod: int, pods: int, at_pods: int
) -> None:
    waiting = HeldQueue(HoldLimits(max_seconds=1000, max_requests=100, per_pod=per_pod))
    for number, (rank, arrived) in enumerate(arrivals):
        waiting.add(request(number, rank=rank, arrived=arrived))
    waiting.set_pods(pods, 200)
    released: list[HeldRequest] = []
    while waiting.requests:
        batch = waiting.releasable(at_pods, 200)
        assert 1 <= len(batch) <= max(per_pod * pods - at_pods, 1)
        for item in batch:
            waiting.remove(item.number)
        released += batch
    assert released == sorted(released)
    assert len(released) == len(arrivals)


@pytest.mark.parametrize(
    "text",
    [None, "", "{}", "[]", "3", '{"max_seconds": 0, "max_requests": 1, "per_pod": 1}',
     '{"max_seconds": true, "max_requests": 1, "per_pod": 1}', '{"max_seconds": 1}', "[" * 200_000],
)  # fmt: skip
def test_limits_that_were_edited_by_hand_hold_nothing(text: str | None) -> None:
    assert HoldLimits.from_annotation(text) is None


def test_limits_survive_their_annotation() -> None:
    assert HoldLimits.from_annotation(LIMITS.as_annotation()) == LIMITS
