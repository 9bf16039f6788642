"""A drain rejects what it cannot finish in time and ends no stream before its deadline."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import (
    Lowering,
    Preemption,
)
from penstock_runtime.engine.continuous.messages import (
    Generated,
    Interrupted,
    Stop,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.messages import Drain, SetLimits
from penstock_runtime.request import Failed
from tests.unit.runtime.engine.continuous.counting_step import LIMITS
from tests.unit.runtime.engine.continuous.driver import generate_request, limits_update

STOPS_SOON = SamplingParams(max_tokens=240, stop_ids=frozenset({25}))
"""Up to 60 s at 0.25 s per step; ends after 24 tokens."""


def test_a_drain_rejects_unfinishable_requests_and_interrupts_the_rest_at_its_deadline(
    driver: Any,
) -> None:
    driver.engine.take(generate_request("short", [1], tokens=4), 0.0)
    driver.engine.take(generate_request("long", [1], tokens=200), 0.0)
    for _ in range(3):
        driver.turn()
    driver.engine.take(Drain(deadline=driver.now + 10.0, retry_after_seconds=2.0), driver.now)
    driver.engine.take(generate_request("late", [1], tokens=200), driver.now)
    driver.run()
    assert isinstance(driver.ends["short"], Generated)
    interrupted = driver.ends["long"]
    assert isinstance(interrupted, Interrupted)
    assert interrupted.usage.completion_tokens == len(driver.tokens["long", 0]) > 4
    assert driver.ends["late"] == Failed("draining", 2.0)


def set_limits(driver: Any, **changes: Any) -> None:
    driver.engine.take(
        SetLimits(limits_update(replace(LIMITS, generation=2, **changes))), driver.now
    )


def evicted(driver: Any) -> None:
    """Two requests stream, then the cap falls to one."""
    driver.engine.take(generate_request("a", [1], params=STOPS_SOON), 0.0)
    driver.engine.take(generate_request("b", [1], params=STOPS_SOON), 0.0)
    for _ in range(4):
        driver.turn()
    set_limits(driver, max_batch_size=1, lowering=Lowering.EVICT)
    driver.turn()


def preempted(driver: Any) -> None:
    """A request streams, then one of higher priority preempts it."""
    set_limits(
        driver,
        max_batch_size=1,
        discipline=Discipline.PRIORITY,
        preemption=Preemption.LOWER_PRIORITY,
    )
    driver.engine.take(generate_request("a", [1], params=STOPS_SOON, priority=9), 0.0)
    for _ in range(20):
        driver.turn()
    driver.engine.take(generate_request("b", [1], params=STOPS_SOON, priority=1), 0.0)
    for _ in range(2):
        driver.turn()


def half_started(driver: Any) -> None:
    """The first of two choices streams."""
    set_limits(driver, max_batch_size=1)
    driver.engine.take(generate_request("a", [1], params=STOPS_SOON, n=2), 0.0)
    for _ in range(4):
        driver.turn()


def half_finished(driver: Any) -> None:
    """The first of two choices has finished, the other has not started."""
    half_started(driver)
    driver.engine.take(Stop((("a", 0),)), driver.now)


@pytest.mark.parametrize("streaming", [evicted, preempted, half_started, half_finished])
def test_a_drain_ends_no_stream_before_its_deadline(
    driver: Any, streaming: Callable[[Any], None]
) -> None:
    streaming(driver)
    driver.engine.take(Drain(deadline=driver.now + 50.0, retry_after_seconds=2.0), driver.now)
    assert driver.engine.report().waiting == 1
    driver.run()
    assert all(isinstance(end, Generated) for end in driver.ends.values()), driver.ends


def test_a_drain_rejects_at_once_requests_that_the_queue_delays_too_long(driver: Any) -> None:
    set_limits(driver, max_batch_size=1)
    for n in range(40):
        driver.engine.take(generate_request(f"{n}", [1], tokens=50), 0.0)  # 12.5 s each
    for _ in range(4):
        driver.turn()
    driver.engine.take(Drain(deadline=driver.now + 100.0, retry_after_seconds=2.0), driver.now)
    driver.engine.take(generate_request("late", [1], tokens=4), driver.now)
    driver.turn()
    rejected = [*map(str, range(8, 40)), "late"]
    assert driver.ends == dict.fromkeys(rejected, Failed("draining", 2.0))
