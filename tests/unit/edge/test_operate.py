"""The loop under more work than it can do: it goes on turning, tells how late it is, and serves more pools a pass."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock_operator import due, metrics, operate
from penstock_operator.decide.plan import Plan
from penstock_operator.memory import Memory
from penstock_operator.observe.objects import ObjectStore
from penstock_operator.observed import PoolObject, PoolView
from penstock_operator.operate import Operation
from penstock_operator.scope import CLUSTER
from tests.unit.decide.world import CONFIG, pool

DECIDE_SECONDS = 0.05


@dataclass
class Blind:
    """An observer that sees nothing, at once."""

    store: ObjectStore
    memory: Memory = field(default_factory=Memory)

    async def look(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        del pools, now
        return []


class Leads:
    def valid(self, now: float) -> bool:
        return now > 0

    def valid_in(self, namespace: str | None) -> bool:
        return bool(namespace)


class Schemas:
    def of(self, kind: str) -> str:
        return kind


class Keys:
    def public_keys(self) -> dict[str, str]:
        return {}


def operation(pools: int) -> Operation:
    store = ObjectStore()
    store.pools = {f"uid-{one}": pool(f"pool-{one}", f"uid-{one}") for one in range(pools)}
    observer, acts, leads = cast("Any", Blind(store)), cast("Any", None), cast("Any", Leads())
    schemas, keys = cast("Any", Schemas()), cast("Any", Keys())
    return Operation(CONFIG, observer, acts, leads, CLUSTER, schemas, keys, ready=True)


async def kept_waiting(made: Operation, seconds: float) -> list[float]:
    """Run the loop for a while; return how long it kept another task waiting, the longest first."""
    loop = asyncio.create_task(made.run())
    gaps, last, end = [], time.monotonic(), time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0)
        gaps.append(time.monotonic() - last)
        last = time.monotonic()
    loop.cancel()
    await asyncio.gather(loop, *made._batches, return_exceptions=True)
    return sorted(gaps, reverse=True)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make deciding slow; hold how many steps were taken."""
    taken: list[int] = []

    def slow(*_: object) -> Plan:
        time.sleep(DECIDE_SECONDS)
        taken.append(1)
        return Plan((), ())

    monkeypatch.setattr(operate, "make_plan", slow)
    monkeypatch.setattr(due.DueQueue, "decided", lambda queue, *_: setattr(queue, "batch", 2))
    return taken


def test_no_turn_of_the_loop_holds_more_than_one_decide_step(sizes: list[int]) -> None:
    made = operation(pools=12)
    made.due.batch = 2
    made.wake(None)
    gaps = asyncio.run(kept_waiting(made, 0.6))
    assert len(sizes) == 6
    assert gaps[0] < 3 * DECIDE_SECONDS


def test_passes_begin_no_faster_than_they_are_decided_on() -> None:
    async def begun() -> float:
        made = operation(pools=1)
        made._decide_seconds = 0.4
        made._start((), 100.0)
        await asyncio.gather(*made._batches)
        return made._next_pass

    assert asyncio.run(begun()) == 100.4


def test_lateness_is_measured_and_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def counted() -> float:
        return metrics.OWN.get_sample_value("penstock_operator_visit_late_seconds_count") or 0.0

    made, before = operation(pools=1), counted()
    made.due.late = (0.0, 12.0)
    with caplog.at_level(logging.WARNING):
        for now in (10.0, 30.0, 69.0, 70.0):
            made._tell_late(now)
    assert counted() - before == 8
    assert ["12 s behind" in one.message for one in caplog.records] == [True, True]
