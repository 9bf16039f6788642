import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.disciplines import order_key
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.request import Request, Tensor
from tests.unit.runtime.engine.dynamic.builders import a_request

FIFO, PRIORITY, _, _, FAIR = Discipline
KEYED = [discipline for discipline in Discipline if discipline is not FAIR]


def waiting(*requests: Request, discipline: Discipline = FIFO) -> WaitingRequests:
    queue = WaitingRequests(discipline)
    for request in requests:
        queue.add(request)
    return queue


def ids(requests: tuple[Request, ...] | list[Request]) -> list[str]:
    return [request.id for request in requests]


def test_a_batch_is_taken_in_order_up_to_its_rows() -> None:
    queue = waiting(*(a_request(name, rows=2, arrived=at) for at, name in enumerate("abcd")))
    shape = queue.heads()[0].shape
    assert ids(queue.take(shape, 5)) == ["a", "b"]
    assert (len(queue), queue.rows) == (2, 4)


def test_no_request_passes_a_head_that_does_not_fit() -> None:
    queue = waiting(a_request("a", rows=3), a_request("big", rows=6), a_request("small", rows=1))
    assert ids(queue.take(queue.heads()[0].shape, 8)) == ["a"]


def test_a_head_larger_than_the_cap_is_taken_alone() -> None:
    queue = waiting(a_request("big", rows=60), a_request("small"))
    assert ids(queue.take(queue.heads()[0].shape, 8)) == ["big"]


def test_equal_keys_keep_the_order_of_admission() -> None:
    queue = waiting(*(a_request(name) for name in "zyx"))
    assert ids(queue.in_order()) == ["z", "y", "x"]


def test_an_id_cannot_wait_twice() -> None:
    with pytest.raises(ValueError, match="'a' is already waiting"):
        waiting(a_request("a"), a_request("a"))


def test_the_window_opens_again_with_the_next_to_arrive_once_the_first_has_left() -> None:
    queue = waiting(a_request("a", arrived=1.0), a_request("b", arrived=2.0))
    assert queue.heads()[0].opened == 1.0
    queue.remove("a")
    assert queue.heads()[0].opened == 2.0


def test_the_window_is_that_of_the_oldest_even_when_others_are_served_first() -> None:
    queue = waiting(
        a_request("old", arrived=1.0, priority=9),
        a_request("new", arrived=2.0, priority=1),
        discipline=PRIORITY,
    )
    assert ids(queue.take(queue.heads()[0].shape, 1)) == ["new"]
    assert queue.heads()[0].opened == 1.0


def test_those_past_their_deadline_leave_earliest_first() -> None:
    queue = waiting(
        a_request("b", deadline=2.0),
        a_request("a", deadline=1.0, shape="other"),
        a_request("later", deadline=3.0),
        a_request("never"),
    )
    assert ids(queue.expire(now=2.0)) == ["a", "b"]
    assert (len(queue), queue.next_expiry()) == (2, 3.0)


def test_removing_is_quiet_about_what_does_not_wait() -> None:
    assert waiting().remove("gone") is None


def test_at_most_four_heads_are_shown_whatever_waits() -> None:
    queue = waiting(*(a_request(str(n), arrived=n, shape=str(n)) for n in range(100)))
    assert 1 <= len(queue.heads()) <= 4
    assert queue.heads()[0].shape[0][0] == "0"


@pytest.mark.parametrize("discipline", KEYED)
def test_a_live_change_of_discipline_reorders_all_that_waits(discipline: Discipline) -> None:
    requests = [
        a_request("a", arrived=0.0, priority=9, deadline=30.0),
        a_request("b", arrived=1.0, priority=1, deadline=20.0, shape="other"),
        a_request("c", arrived=2.0, priority=5, deadline=10.0),
    ]
    queue = waiting(*requests)
    queue.change_discipline(discipline)
    expected = sorted(requests, key=lambda request: order_key(discipline, request))
    assert ids(queue.in_order()) == ids(expected)
    assert ids(queue.take(queue.heads()[0].shape, 1)) == [expected[0].id]


REQUESTS = st.builds(
    lambda arrived, rows, priority, deadline, shape: (arrived, rows, priority, deadline, shape),
    st.floats(0, 100),
    st.integers(1, 5),
    st.integers(0, 12),
    st.none() | st.floats(0, 200),
    st.sampled_from("xyz"),
)


@given(st.lists(REQUESTS, max_size=30), st.sampled_from(KEYED), st.randoms())
def test_heads_agree_with_a_plain_sort_after_any_removals(
    drawn: list[tuple[float, int, int, float | None, str]], discipline: Discipline, random: object
) -> None:
    requests = [
        a_request(
            str(n), arrived=arrived, rows=rows, priority=priority, deadline=deadline, shape=shape
        )
        for n, (arrived, rows, priority, deadline, shape) in enumerate(drawn)
    ]
    queue = waiting(*requests, discipline=discipline)
    left = [
        request
        for request in requests
        if not random.random() < 0.4 or queue.remove(request.id) is None  # type: ignore[attr-defined]
    ]
    assert (len(queue), queue.rows) == (len(left), sum(request.rows for request in left))
    heads = queue.heads()
    if not left:
        assert heads == ()
        return
    first = min(left, key=lambda request: (order_key(discipline, request), int(request.id)))
    assert heads[0].shape == first.group
    mates = [request for request in left if request.group == first.group]
    assert heads[0].rows == sum(request.rows for request in mates)
    assert heads[0].opened == min(request.arrived for request in mates)
    deadlines = [request.deadline for request in mates if request.deadline is not None]
    assert heads[0].earliest_deadline == min(deadlines, default=None)
    assert max(head.rows for head in heads) == max(
        sum(request.rows for request in left if request.group == group)
        for group in {o.group for o in left}
    )
    assert min(head.opened for head in heads) == min(request.arrived for request in left)


def left(queue: WaitingRequests, *requests: Request) -> list[weakref.ref[Tensor]]:
    """Add `requests`, and return weak references to their tensors."""
    for request in requests:
        queue.add(request)
    return [weakref.ref(request.inputs["x"]) for request in requests]


def test_tensors_of_requests_served_or_cancelled_out_of_order_are_released() -> None:
    queue = waiting(a_request("old", priority=9), discipline=PRIORITY)
    tensors = left(
        queue, *(a_request(name, arrived=1.0, deadline=9.0, priority=1) for name in "abc")
    )
    assert ids(queue.take(queue.heads()[0].shape, 2)) == ["a", "b"]
    queue.remove("c")
    assert [tensor() for tensor in tensors] == [None] * 3
    assert len(queue) == 1


def test_a_request_cancelled_in_a_plain_queue_leaves_nothing_large_in_it() -> None:
    queue = WaitingRequests(FIFO)
    (gone,) = left(queue, a_request("a", rows=10_000))
    (mate,) = left(queue, a_request("b", rows=10_000))
    queue.remove("a")
    assert (gone() is None, mate() is None) == (True, False)
    queue.take(queue.heads()[0].shape, 20_000)
    assert mate() is None
    (alone,) = left(queue, a_request("c", rows=10_000))
    queue.remove("c")
    assert alone() is None
