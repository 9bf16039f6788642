"""Which of several engines behind one queue is found stuck; their heartbeats and the time are made up."""

from dataclasses import replace
from typing import Any, cast

import pytest

from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.link.data_parallel import BatchProcess, DataParallelLink
from penstock_runtime.engine.messages import EngineReport, Settled, Submit
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.request import Cancelled
from penstock_runtime.serving.health import EngineWatch
from tests.unit.runtime.engine.dynamic.builders import a_request, info

PATIENCE = 30.0
REPORT = EngineReport(0, 0, 1, converging=False, batch_cap_bound=64, busy_seconds=0.0, curve=ServiceTimeSums())  # fmt: skip


class Beating:
    """Takes the place of the link to one engine: its heartbeat is an attribute."""

    def __init__(self) -> None:
        self.beat = Heartbeat(last_step=0.0, busy=False, predicted_seconds=0.0, alive_at=0.0)
        self.deliver: Any = None

    async def start(self, deliver: Any) -> Any:
        self.deliver = deliver
        return info()

    def send(self, message: object) -> None:
        """Ignore it."""

    def heartbeat(self) -> Heartbeat:
        return self.beat

    # -- what the engine does

    def begins(self, now: float, predicted: float = 0.01) -> None:
        self.beat = Heartbeat(now, busy=True, predicted_seconds=predicted, alive_at=now)

    def ends(self, now: float) -> None:
        self.beat = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def ticks(self, now: float) -> None:
        self.beat = replace(self.beat, alive_at=now)


class Engines:
    """Two engines that have idled since time 0, and the watch of their pod, whose requests never run out."""

    def __init__(self, cap: int) -> None:
        self.now = 0.0
        self.first, self.second = pair = Beating(), Beating()
        links = cast("list[BatchProcess]", list(pair))
        self.link = DataParallelLink(links, cap, lambda: self.now)
        self._watch = EngineWatch(PATIENCE)

    def submit(self, name: str) -> None:
        self.link.send(Submit((a_request(name),)))

    def look(self, now: float) -> str | None:
        """Return the verdict, and advance to the next second."""
        self.now = now
        return self._watch.look(self.link.heartbeat(), 1.0, 0.0, now)


@pytest.fixture(params=["between two steps", "in a step"])
def first_runs(request: pytest.FixtureRequest) -> Any:
    """Return a function that shows the first engine as it serves without a pause."""

    def show(engines: Engines, now: float) -> None:
        if request.param == "in a step":
            engines.first.begins(now - 0.004)
        else:
            engines.first.ends(now - 0.001)

    return show


def test_an_engine_without_a_part_of_the_cap_may_idle_while_the_other_serves(
    first_runs: Any,
) -> None:
    engines = Engines(cap=1)
    engines.submit("a")
    for second in range(1, 100):
        first_runs(engines, float(second))
        engines.second.ticks(second - 0.5)
        assert engines.look(float(second)) is None


def test_an_idle_engine_gets_its_patience_from_its_first_request(first_runs: Any) -> None:
    engines = Engines(cap=2)
    engines.submit("a")
    verdicts = []
    for second in range(1, 140):
        first_runs(engines, float(second))
        engines.second.ticks(second - 0.5)
        if second == 100:
            engines.submit("b")
        verdicts.append(engines.look(float(second)))
    stuck_at = next(second for second, verdict in enumerate(verdicts, 1) if verdict)
    assert 100 + PATIENCE - 1 <= stuck_at <= 100 + PATIENCE + 1
    assert "requests wait and no step ran" in str(verdicts[stuck_at - 1])


def test_a_frozen_engine_without_requests_is_found_while_the_other_serves(
    first_runs: Any,
) -> None:
    engines = Engines(cap=2)
    engines.submit("a")
    for second in range(1, 31):
        first_runs(engines, float(second))
        assert engines.look(float(second)) is None
    first_runs(engines, 32.0)
    assert "no sign of life" in str(engines.look(32.0))


def test_a_long_step_of_one_engine_is_no_silence_of_the_other() -> None:
    engines = Engines(cap=2)
    engines.submit("a")
    engines.submit("b")
    engines.first.begins(1.0, predicted=50.0)
    for second in range(1, 200):
        engines.second.ends(second - 0.001)
        assert engines.look(float(second)) is None


def test_a_step_that_runs_is_shown_while_the_other_engine_idles() -> None:
    engines = Engines(cap=2)
    engines.submit("a")
    engines.first.begins(10.0, predicted=50.0)
    engines.second.ticks(39.5)
    engines.now = 40.0
    assert engines.link.heartbeat() == engines.first.beat


async def test_an_engine_that_has_ended_its_requests_may_idle() -> None:
    engines = Engines(cap=2)
    await engines.link.start(lambda _: None)
    engines.submit("a")
    engines.first.deliver(Settled((("a", Cancelled()),), None, REPORT))
    engines.second.begins(1.0)
    for second in range(1, 100):
        engines.first.ticks(second - 0.5)
        engines.second.ends(second - 0.001)
        assert engines.look(float(second)) is None
