"""The plain queue of uniform requests behaves as the general queue does, at a lower cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue import queue as queues
from penstock_runtime.engine.queue.fifo import FifoQueue
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.request import Request
from tests.unit.runtime.engine.dynamic.builders import a_request

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "odd", "take", "remove", "expire", "look"]),
        st.integers(0, 40),
    ),
    max_size=60,
)


@given(
    STEPS, st.sampled_from(list(Discipline)), st.sampled_from(list(Discipline)), st.integers(0, 60)
)
def test_with_and_without_the_plain_line_the_same_happens(
    steps: list[tuple[str, int]], discipline: Discipline, later: Discipline, change_at: int
) -> None:
    plain = told_of(steps, discipline, later, change_at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "ARRIVAL_SERVES", frozenset())
        grouped = told_of(steps, discipline, later, change_at)
    assert plain == grouped


def told_of(
    steps: list[tuple[str, int]], discipline: Discipline, later: Discipline, change_at: int
) -> list[Any]:
    """Return everything that a queue reports during these steps."""
    queue, log = WaitingRequests(discipline), list[Any]()
    for now, (step, number) in enumerate(steps):
        if now == change_at:
            queue.change_discipline(later)
        match step:
            case "add":
                queue.add(
                    a_request(
                        str(now), arrived=float(now), rows=1 + number % 3, deadline=now + 20.0
                    )
                )
            case "odd":
                queue.add(odd(now, number))
            case "take" if queue.heads():
                log.append(
                    [request.id for request in queue.take(queue.heads()[0].shape, 1 + number % 8)]
                )
            case "remove":
                log.append(queue.remove(str(number)) is None)
            case "expire":
                log.append(sorted(request.id for request in queue.expire(float(now))))
        log += [len(queue), queue.rows, queue.next_expiry(), str(number) in queue]
        log += [(h.shape, h.rows, h.opened, h.earliest_deadline) for h in queue.heads()[:1]]
        log.append([request.id for request in queue.in_order()])
    return log


def odd(now: int, number: int) -> Request:
    match number % 4:
        case 0:
            return a_request(str(now), arrived=float(now), deadline=now + 1.0)
        case 1:
            return a_request(str(now), arrived=float(now), priority=1 + number % 3)
        case 2:
            return a_request(str(now), arrived=now - 3.5, deadline=now + 20.0)
        case _:
            return a_request(str(now), arrived=float(now), shape="other")


def test_a_cancelled_request_leaves_nothing_in_memory() -> None:
    line = FifoQueue()
    for n in range(1000):
        line.add(a_request(str(n), arrived=float(n)))
    for n in range(1, 1000):
        line.remove(str(n))
    assert len(line._line) < 70
    assert (line.head().id, len(line), line.rows) == ("0", 1, 1)


def test_an_id_that_was_cancelled_may_come_again() -> None:
    queue = WaitingRequests(Discipline.PRIORITY)
    for at, name in enumerate("aba"):
        queue.remove(name)
        queue.add(a_request(name, arrived=float(at), rows=at + 1))
    assert [(request.id, request.rows) for request in queue.take(queue.heads()[0].shape, 9)] == [
        ("b", 2),
        ("a", 3),
    ]
