import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.disciplines import (
    AGING_SECONDS,
    BATCH_CLASS,
    LOWEST_CLASS,
    order_key,
    priority_class,
)
from tests.unit.runtime.engine.dynamic.builders import a_request

PRIORITY = Discipline.PRIORITY


def test_first_in_first_out_is_arrival() -> None:
    request = a_request("a", arrived=7.0, priority=1, deadline=8.0)
    assert order_key(Discipline.FIRST_IN_FIRST_OUT, request) == 7.0


def test_one_is_the_highest_priority_and_unset_the_lowest() -> None:
    highest, second, unset = (a_request(str(p), priority=p) for p in (1, 2, 0))
    assert order_key(PRIORITY, highest) < order_key(PRIORITY, second) < order_key(PRIORITY, unset)


def test_numbers_above_the_lowest_class_are_batch_work() -> None:
    assert priority_class(10**18) == priority_class(BATCH_CLASS) == BATCH_CLASS
    assert priority_class(0) == priority_class(LOWEST_CLASS) == LOWEST_CLASS


def test_batch_work_is_served_after_what_arrives_while_a_pod_may_keep_it() -> None:
    batch = a_request("batch", arrived=0.0, priority=BATCH_CLASS)
    unset = a_request("unset", arrived=86_400.0)
    later = a_request("later", arrived=1.0, priority=BATCH_CLASS)
    assert order_key(PRIORITY, unset) < order_key(PRIORITY, batch) < order_key(PRIORITY, later)


def test_a_class_lower_is_made_up_for_by_its_aging_time() -> None:
    old = a_request("old", arrived=0.0, priority=2)
    just_too_late = a_request("new", arrived=AGING_SECONDS + 0.001, priority=1)
    still_in_time = a_request("new", arrived=AGING_SECONDS - 0.001, priority=1)
    assert order_key(PRIORITY, still_in_time) < order_key(PRIORITY, old)
    assert order_key(PRIORITY, old) < order_key(PRIORITY, just_too_late)


@given(st.integers(0, LOWEST_CLASS), st.integers(0, 100), st.floats(0, 1e6))
def test_no_request_is_overtaken_by_one_that_arrives_long_after(
    mine: int, other: int, now: float
) -> None:
    longest = (LOWEST_CLASS - 1) * AGING_SECONDS
    me = a_request("me", arrived=now, priority=mine)
    late = a_request("late", arrived=now + longest + 0.001, priority=other)
    assert order_key(PRIORITY, me) < order_key(PRIORITY, late)


def test_earliest_deadline_first_serves_those_without_one_last() -> None:
    edf = Discipline.EARLIEST_DEADLINE_FIRST
    assert order_key(edf, a_request("a", deadline=3.0)) == 3.0
    assert order_key(edf, a_request("b")) == math.inf


def test_shortest_job_first_is_predicted_work() -> None:
    sjf = Discipline.SHORTEST_JOB_FIRST
    assert order_key(sjf, a_request("a", rows=3, arrived=0.0)) == 3.0


def test_fair_share_has_no_key_that_stands_still() -> None:
    with pytest.raises(ValueError, match="orders tenants"):
        order_key(Discipline.FAIR_SHARE, a_request("a"))
