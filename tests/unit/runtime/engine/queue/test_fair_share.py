"""Tenants take turns by what they were served, whatever shapes their requests have."""

from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.fair_share import TenantCounters
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.request import Request
from tests.unit.runtime.engine.dynamic.builders import a_request

FAIR = Discipline.FAIR_SHARE


def queue_of(*requests: Request) -> WaitingRequests:
    queue = WaitingRequests(FAIR)
    for request in requests:
        queue.add(request)
    return queue


def next_one(queue: WaitingRequests) -> str:
    return queue.take(queue.heads()[0].shape, 1)[0].id


def test_backlogged_tenants_alternate_although_one_sent_first() -> None:
    queue = queue_of(
        *(a_request(f"a{n}", tenant="a") for n in range(3)),
        *(a_request(f"b{n}", tenant="b") for n in range(3)),
    )
    assert [next_one(queue) for _ in range(6)] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_batch_is_shared_by_tenants() -> None:
    queue = queue_of(
        *(a_request(f"a{n}", tenant="a") for n in range(8)),
        *(a_request(f"b{n}", tenant="b") for n in range(8)),
    )
    batch = queue.take(queue.heads()[0].shape, 8)
    assert sum(request.tenant == "b" for request in batch) == 4


def test_shares_are_of_work_not_of_requests() -> None:
    queue = queue_of(
        *(a_request(f"big{n}", rows=3, tenant="a") for n in range(4)),
        *(a_request(f"small{n}", tenant="b") for n in range(4)),
    )
    assert [next_one(queue) for _ in range(4)] == ["big0", "small0", "small1", "small2"]


def test_who_was_idle_has_saved_up_nothing() -> None:
    queue = queue_of(*(a_request(f"a{n}", tenant="a") for n in range(20)))
    for _ in range(10):
        next_one(queue)
    queue.add(a_request("b0", tenant="b"))
    queue.add(a_request("b1", tenant="b"))
    served = [next_one(queue) for _ in range(4)]
    assert [name[0] for name in served].count("b") == 2


def test_who_comes_back_to_an_empty_queue_starts_level_with_who_left_last() -> None:
    tenants = TenantCounters()
    tenants.enter("a")
    tenants.charge("a", 100.0)
    tenants.leave("a")
    tenants.enter("b")
    assert tenants.served("b") == 100.0


def test_cancelling_costs_a_tenant_nothing() -> None:
    queue = queue_of(*(a_request(f"a{n}", rows=50, tenant="a") for n in range(3)))
    queue.add(a_request("b", tenant="b"))
    for n in range(2):
        queue.remove(f"a{n}")
    assert next_one(queue) == "a2"


def test_a_turn_taken_in_one_shape_counts_in_every_other() -> None:
    queue = queue_of(
        a_request("a0", tenant="a", rows=2, shape="x"),
        a_request("a1", tenant="a", shape="y"),
        a_request("b0", tenant="b", shape="z"),
    )
    assert [next_one(queue) for _ in range(3)] == ["a0", "b0", "a1"]


def test_a_tenants_own_requests_go_by_priority() -> None:
    queue = queue_of(
        a_request("late", tenant="a", priority=9), a_request("first", tenant="a", priority=1)
    )
    assert next_one(queue) == "first"


def test_a_live_change_to_fair_share_and_back_keeps_everybody() -> None:
    queue = WaitingRequests(Discipline.FIRST_IN_FIRST_OUT)
    for n in range(4):
        queue.add(a_request(str(n), arrived=n, tenant="ab"[n // 2]))
    queue.change_discipline(FAIR)
    assert [next_one(queue) for _ in range(2)] == ["0", "2"]
    queue.change_discipline(Discipline.FIRST_IN_FIRST_OUT)
    assert [next_one(queue) for _ in range(2)] == ["1", "3"]


def test_tenants_that_come_once_are_forgotten() -> None:
    tenants = TenantCounters()
    for n in range(10_000):
        tenants.enter(str(n))
        tenants.charge(str(n), 1.0)
        tenants.leave(str(n))
    assert len(tenants._served) < 200


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.sampled_from("xy")),
        min_size=1,
        max_size=60,
    )
)
def test_no_backlogged_tenant_falls_behind_by_more_than_the_largest_request(
    drawn: list[tuple[str, int, str]],
) -> None:
    queue = queue_of(
        *(
            a_request(str(n), rows=rows, tenant=tenant, shape=shape)
            for n, (tenant, rows, shape) in enumerate(drawn)
        )
    )
    left = {tenant: sum(1 for entry in drawn if entry[0] == tenant) for tenant, _, _ in drawn}
    served = dict.fromkeys(left, 0)
    while len(queue):
        (request,) = queue.take(queue.heads()[0].shape, 1)
        assert served[request.tenant] == min(served[name] for name in left if left[name])
        served[request.tenant] += request.rows
        left[request.tenant] -= 1
