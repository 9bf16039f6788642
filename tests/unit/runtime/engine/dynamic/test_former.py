from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    Batch,
    BatchLimits,
    NothingWaits,
    Placement,
    WaitUntil,
    form_batch,
)
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.engine.service_time import UNKNOWN, ServiceTime
from penstock_runtime.request import Request
from tests.unit.runtime.engine.dynamic.builders import a_request

WINDOW = 0.5
BUSY = ArrivalForecast(ServiceTime(1.0, 0.1), rows_per_second=100.0)
"""So much arrives that waiting for company pays."""
QUIET = ArrivalForecast(ServiceTime(1.0, 0.1), rows_per_second=0.1)


def formed(
    *requests: Request,
    now: float,
    cap: int = 8,
    window: float = WINDOW,
    outlook: ArrivalForecast = BUSY,
    discipline: Discipline = Discipline.FIRST_IN_FIRST_OUT,
) -> Placement:
    waiting = WaitingRequests(discipline)
    for request in requests:
        waiting.add(request)
    return form_batch(waiting, BatchLimits(cap, window), outlook, now)


def ids(placement: Placement) -> list[str]:
    assert isinstance(placement, Batch), placement
    return [request.id for request in placement.requests]


def test_nothing_waits_and_the_engine_idles() -> None:
    assert formed(now=1.0) == NothingWaits()


def test_a_partial_batch_runs_when_its_window_elapses() -> None:
    first, second = a_request("a", arrived=10.0), a_request("b", arrived=10.4)
    assert formed(first, second, now=10.4) == WaitUntil(10.5)
    assert ids(formed(first, second, now=10.5)) == ["a", "b"]


def test_the_window_opened_when_the_first_arrived_not_when_the_engine_looked() -> None:
    assert ids(formed(a_request("a", arrived=10.0), now=99.0)) == ["a"]


def test_a_full_batch_does_not_wait_for_its_window() -> None:
    requests = [a_request(name, rows=4, arrived=10.0) for name in "abc"]
    assert ids(formed(*requests, now=10.0)) == ["a", "b"]


def test_rows_are_counted_not_requests() -> None:
    requests = [a_request(name, rows=3, arrived=10.0) for name in "abc"]
    placement = formed(*requests, now=10.0)
    assert ids(placement) == ["a", "b"]
    assert isinstance(placement, Batch)
    assert placement.rows == 6


def test_without_a_window_an_idle_engine_never_waits() -> None:
    assert ids(formed(a_request("a", arrived=10.0), now=10.0, window=0.0)) == ["a"]


def test_a_lone_request_on_a_quiet_engine_is_served_at_once_despite_the_window() -> None:
    assert ids(formed(a_request("a", arrived=10.0), now=10.0, outlook=QUIET)) == ["a"]


def test_waiting_stops_paying_once_as_many_wait_as_would_arrive_during_the_run() -> None:
    outlook = ArrivalForecast(ServiceTime(1.0, 0.0), rows_per_second=3.0)
    two, three = a_request("a", rows=2, arrived=10.0), a_request("a", rows=3, arrived=10.0)
    assert formed(two, now=10.0, outlook=outlook) == WaitUntil(10.5)
    assert ids(formed(three, now=10.0, outlook=outlook)) == ["a"]


def test_an_unknown_service_time_is_no_reason_to_wait() -> None:
    placement = formed(
        a_request("a", arrived=10.0), now=10.0, outlook=ArrivalForecast(UNKNOWN, 1e6)
    )
    assert ids(placement) == ["a"]


def test_the_window_closes_early_for_the_earliest_deadline() -> None:
    outlook = ArrivalForecast(ServiceTime(0.1, 0.0), rows_per_second=1e6)
    patient = a_request("a", arrived=10.0)
    hasty = a_request("b", arrived=10.0, deadline=10.3)
    # 0.2 s of slack remain after the batch's own 0.1 s; half of it may be spent on waiting.
    placement = formed(patient, hasty, now=10.0, outlook=outlook)
    assert isinstance(placement, WaitUntil)
    assert abs(placement.time - 10.1) < 1e-9
    assert ids(formed(patient, hasty, now=10.11, outlook=outlook)) == ["a", "b"]


def test_shapes_do_not_mix() -> None:
    requests = [
        a_request("a", arrived=10.0),
        a_request("b", arrived=10.1, shape="other"),
        a_request("c", arrived=10.2),
    ]
    assert ids(formed(*requests, now=20.0)) == ["a", "c"]


def test_a_full_group_runs_while_the_first_in_order_still_waits_for_company() -> None:
    lone = a_request("lone", arrived=10.0, shape="other")
    full = [a_request(str(n), arrived=10.1) for n in range(8)]
    assert ids(formed(lone, *full, now=10.2)) == [str(n) for n in range(8)]


def test_of_two_ready_groups_the_one_with_the_better_head_runs() -> None:
    full = [a_request(str(n), arrived=10.1) for n in range(8)]
    older = a_request("older", arrived=9.0, shape="other")
    assert ids(formed(*full, older, now=10.2)) == ["older"]


def test_a_request_above_the_cap_runs_alone_rather_than_being_lost() -> None:
    big, small = a_request("big", rows=20, arrived=10.0), a_request("small", arrived=10.0)
    assert ids(formed(big, small, now=10.0)) == ["big"]


DRAWN = st.tuples(
    st.floats(0, 10),
    st.integers(1, 6),
    st.integers(0, 10),
    st.none() | st.floats(0, 30),
    st.sampled_from("xy"),
)


@given(
    st.lists(DRAWN, min_size=1, max_size=40),
    st.integers(1, 10),
    st.floats(0, 2),
    st.sampled_from(list(Discipline)),
    st.floats(0, 1000),
)
def test_everyone_is_served_once_and_no_batch_exceeds_the_cap(
    drawn: list[tuple[float, int, int, float | None, str]],
    cap: int,
    window: float,
    discipline: Discipline,
    rate: float,
) -> None:
    waiting = WaitingRequests(discipline)
    for n, (arrived, rows, priority, deadline, shape) in enumerate(drawn):
        waiting.add(
            a_request(
                str(n),
                arrived=arrived,
                rows=rows,
                priority=priority,
                deadline=deadline,
                shape=shape,
            )
        )
    served, now = list[str](), 10.0
    outlook = ArrivalForecast(ServiceTime(0.05, 0.01), rate)
    while not isinstance(
        placement := form_batch(waiting, BatchLimits(cap, window), outlook, now), NothingWaits
    ):
        if isinstance(placement, WaitUntil):
            assert placement.time > now
            assert placement.time <= 10.0 + window
            now = placement.time
            continue
        assert placement.rows <= cap or len(placement.requests) == 1
        assert len({request.group for request in placement.requests}) == 1
        served += [request.id for request in placement.requests]
    assert sorted(served) == sorted(str(n) for n in range(len(drawn)))


def test_no_request_starves_under_priority_while_better_classes_keep_arriving() -> None:
    waiting = WaitingRequests(Discipline.PRIORITY)
    waiting.add(a_request("low", arrived=0.0, priority=10))
    now, served = 0.0, list[str]()
    while "low" not in served:
        waiting.add(a_request(f"high-{now}", arrived=now, priority=1))
        placement = form_batch(waiting, BatchLimits(1, 0.0), QUIET, now)
        served += ids(placement)
        now += 1.0
        assert now <= 50.0, "the lowest class waits at most nine times its aging"
