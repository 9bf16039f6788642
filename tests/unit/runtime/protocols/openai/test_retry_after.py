"""`Retry-After` of a generating pod, with a fake clock and without a socket."""

from collections.abc import Iterable

import pytest

from penstock_runtime.engine.continuous.messages import Ended, Generate, Generated, Usage
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.state import ServingState

from .served import LIMITS

HOUR = 3600.0
COST = Usage(prompt_tokens=1, completion_tokens=1, cached_tokens=0, queue_seconds=0, preemptions=0)


class Desk:
    """An admission with an engine whose requests a test ends."""

    def __init__(self) -> None:
        self.time = 100.0
        health = Health()
        health.stage = Stage.SERVING
        self.admission = GenerationAdmission(
            lambda _: None,
            ServingState(LiveLimits(LIMITS, lambda _: None), health, Counters(), lambda: self.time),
            GenerationCounters(),
            max_bytes=2**30,
        )

    def submit(self, count: int) -> list[str]:
        tickets = [self.admission.open(self.time) for _ in range(count)]
        for ticket in tickets:
            message = Generate(ticket.id, (1,), SamplingParams(max_tokens=1), self.time)
            self.admission.begin(ticket, message, Mailbox(self.admission.memory.unread_tokens))
        return [ticket.id for ticket in tickets]

    def end(self, names: Iterable[str], every_seconds: float) -> None:
        for name in names:
            self.time += every_seconds
            self.admission.deliver_events([Ended(name, Generated(COST))])


def test_idle_time_is_no_interval_between_two_ends() -> None:
    desk = Desk()
    desk.end(desk.submit(1), every_seconds=0.05)
    desk.time += HOUR
    desk.end(desk.submit(64)[:1], every_seconds=0.05)
    assert desk.admission.retry_after_seconds() < 10


def test_retry_after_is_the_mean_interval_of_ends_times_the_queue() -> None:
    desk = Desk()
    desk.end(desk.submit(80), every_seconds=0.5)
    desk.time += HOUR
    desk.submit(64)
    assert desk.admission.retry_after_seconds() == pytest.approx(64 * 0.5, rel=0.01)
