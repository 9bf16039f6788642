"""Admission: credits, rejections and ends of requests, with a fake clock and without a socket."""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_runtime.engine.messages import Cancel, EngineReport, Submit, ToEngine
from penstock_runtime.engine.queue.disciplines import AGING_SECONDS
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.errors import DeadlineTooNear, NotServing, QueueFull, RequestRejected
from penstock_runtime.request import Completed, Expired, Failed, Request, RequestOutcome, Tensor
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.batch.admission import BatchAdmission
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.state import ServingState


class AdmissionHarness:
    """An admission, its messages to the engine, and a clock that a test sets."""

    def __init__(self, depth: int = 2, discipline: str = "FirstInFirstOut", cap: int = 4) -> None:
        self.sent: list[ToEngine] = []
        self.time = 100.0
        self.health = Health()
        self.health.stage = Stage.SERVING
        self.counters = Counters()
        limits = LimitsUpdate(
            generation=1,
            max_batch_size=cap,
            max_queue_depth=depth,
            max_queue_delay_milliseconds=0,
            discipline=Discipline(discipline),
        )
        self.live = LiveLimits(limits, self.sent.append)
        state = ServingState(self.live, self.health, self.counters, lambda: self.time)
        self.desk = BatchAdmission(self.sent.append, state)

    def report(self, waiting: int = 0, running: int = 0, batch_seconds: float = 0.0) -> None:
        """Deliver a report of the engine; every batch of 4 rows took `batch_seconds`."""
        curve = ServiceTimeSums(
            batches=10,
            cost_units=40,
            cost_units_squared=160,
            seconds=10 * batch_seconds,
            cost_unit_seconds=40 * batch_seconds,
        )
        self.live.deliver(EngineReport(waiting, running, 1, False, 64, 0.0, curve))

    def admit(
        self, rows: int = 1, seconds: float | None = None, priority: int = 0
    ) -> asyncio.Task[Any]:
        """Admit one request."""

        async def admission() -> Any:
            with self.desk.receive() as ticket:
                self.desk.slots.reserve_slot(ticket, priority)
                self.desk.count_rows(ticket, rows, priority)
                return await self.desk.serve(ticket, self.request(ticket, rows, seconds, priority))

        return asyncio.ensure_future(admission())

    def request(
        self, ticket: Ticket, rows: int, seconds: float | None, priority: int = 0
    ) -> Request:
        deadline = None if seconds is None else self.time + seconds
        x: dict[str, Tensor] = {"X": np.zeros((rows, 1), np.float32)}
        return Request(ticket.id, x, rows, (), self.time, deadline, priority)

    def ids(self) -> list[str]:
        return [
            request.id
            for message in self.sent
            if isinstance(message, Submit)
            for request in message.requests
        ]


DONE = Completed({}, queue_seconds=0.5)


@contextmanager
def rejected(kind: type[RequestRejected]) -> Iterator[pytest.ExceptionInfo[RequestRejected]]:
    with pytest.raises(kind) as info:
        yield info


async def settle() -> None:
    """Run all ready tasks."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_retry_after_of_a_full_queue_is_its_predicted_time() -> None:
    harness = AdmissionHarness(depth=2)
    harness.report(batch_seconds=3.0)
    tasks = [harness.admit(rows=4), harness.admit(rows=4)]
    await settle()
    with rejected(QueueFull) as info:
        await harness.admit()
    assert info.value.retry_after_seconds == 6, "two batches of 3 s wait"
    assert harness.counters.rejected == {"QueueFull": 1}
    harness.desk.deliver((name, DONE) for name in harness.ids())
    assert await asyncio.gather(*tasks) == [DONE, DONE]
    assert harness.counters.settled() == harness.counters.received == 3


async def test_running_requests_hold_no_credit() -> None:
    harness = AdmissionHarness(depth=1)
    first = harness.admit()
    await settle()
    harness.report(waiting=0, running=1)
    second = harness.admit()
    await settle()
    assert harness.desk.load().model_dump() == {"waiting": 1, "running": 1}
    harness.desk.deliver((name, DONE) for name in harness.ids())
    assert await first == await second == DONE


async def test_a_request_in_preparation_holds_a_slot_and_releases_it() -> None:
    harness = AdmissionHarness(depth=1)

    async def read_badly() -> None:
        with harness.desk.receive() as ticket:
            harness.desk.slots.reserve_slot(ticket)
            with rejected(QueueFull):
                await harness.admit()
            raise RuntimeError("a defect while parsing")

    with pytest.raises(RuntimeError):
        await read_badly()
    assert harness.desk.empty()
    assert harness.counters.ended[RequestOutcome.FAILED] == 1
    assert harness.counters.settled() == harness.counters.received == 2


async def test_rows_of_unread_bodies_are_counted_at_the_mean_of_those_read() -> None:
    harness = AdmissionHarness(depth=2)
    tasks = [harness.admit(rows=2), harness.admit(rows=6)]
    await settle()
    with rejected(QueueFull):
        await harness.admit(rows=100)
    assert harness.counters.rows_received == 2 + 6 + 4
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_a_deadline_before_the_predicted_start_is_rejected_at_once() -> None:
    harness = AdmissionHarness(depth=100, cap=4)
    harness.report(batch_seconds=2.0)
    tasks = [harness.admit(rows=4) for _ in range(3)]
    await settle()
    with rejected(DeadlineTooNear) as info:
        await harness.admit(seconds=5.9)
    assert info.value.field == "parameters.timeout"
    assert info.value.retry_after_seconds == 6
    patient = harness.admit(seconds=6.1)
    await settle()
    assert len(harness.ids()) == 4
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(patient, *tasks)


async def test_no_deadline_is_rejected_before_the_first_measured_batch() -> None:
    harness = AdmissionHarness(depth=100)
    tasks = [harness.admit(rows=4, seconds=0.001) for _ in range(5)]
    await settle()
    assert len(harness.ids()) == 5
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_a_high_priority_waits_only_for_its_own_class() -> None:
    harness = AdmissionHarness(depth=100, discipline="Priority")
    harness.report(batch_seconds=2.0)
    tasks = [harness.admit(rows=4, priority=3) for _ in range(3)]
    await settle()
    with rejected(DeadlineTooNear):
        await harness.admit(seconds=1, priority=3)
    urgent = harness.admit(seconds=1, priority=1)
    await settle()
    assert len(harness.ids()) == 4
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(urgent, *tasks)


def full_of_the_lowest_class(
    discipline: str = "Priority",
) -> tuple[AdmissionHarness, list[asyncio.Task[Any]]]:
    """Return an admission whose queue of two is full, and the waiting requests."""
    harness = AdmissionHarness(depth=2, discipline=discipline)
    return harness, [harness.admit(), harness.admit(priority=10)]


async def test_a_full_queue_displaces_the_last_in_order_of_priority() -> None:
    harness, (first, last) = full_of_the_lowest_class()
    await settle()
    urgent = harness.admit(priority=1)
    await settle()
    with rejected(QueueFull):
        await last
    assert harness.sent[-2] == Cancel((harness.ids()[1],))
    assert harness.desk.load().waiting == 2
    second = harness.admit(priority=9)
    await settle()
    with rejected(QueueFull):
        await first
    with rejected(QueueFull):
        await harness.admit(priority=9)
    harness.desk.deliver((name, DONE) for name in harness.ids())
    assert await urgent == await second == DONE
    assert harness.counters.rejected == {"QueueFull": 3}
    assert harness.counters.settled() == harness.counters.received == 5
    assert harness.desk.empty()


async def test_running_requests_are_not_displaced() -> None:
    harness, tasks = full_of_the_lowest_class()
    await settle()
    harness.desk.record_started(harness.ids())
    harness.report(waiting=0, running=2)
    tasks += [harness.admit(priority=1), harness.admit(priority=1)]
    await settle()
    with rejected(QueueFull):
        await harness.admit(priority=1)
    harness.desk.deliver((name, DONE) for name in harness.ids())
    assert await asyncio.gather(*tasks) == [DONE] * 4


async def test_requests_that_have_waited_long_are_not_displaced() -> None:
    harness, tasks = full_of_the_lowest_class()
    await settle()
    harness.time += 9 * AGING_SECONDS + 1
    with rejected(QueueFull):
        await harness.admit(priority=1)
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("discipline", ["FirstInFirstOut", "EarliestDeadlineFirst"])
async def test_a_discipline_without_priorities_displaces_no_request(discipline: str) -> None:
    harness, tasks = full_of_the_lowest_class(discipline)
    await settle()
    with rejected(QueueFull):
        await harness.admit(priority=1)
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_an_invalid_body_or_a_lower_priority_displaces_no_request() -> None:
    harness, tasks = full_of_the_lowest_class()
    await settle()
    with harness.desk.receive() as ticket:
        harness.desk.slots.reserve_slot(ticket, 1)
        with rejected(QueueFull):
            await harness.desk.serve(ticket, harness.request(ticket, 1, None, priority=10))
    with harness.desk.receive() as ticket:
        harness.desk.slots.reserve_slot(ticket, 1)  # and nothing is submitted
    assert len(harness.ids()) == 2
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)
    assert harness.desk.empty()


async def test_requests_in_preparation_beyond_a_full_queue_are_limited_by_displaceable_ones() -> (
    None
):
    harness, tasks = full_of_the_lowest_class()
    await settle()
    for _ in range(2):
        harness.desk.slots.reserve_slot(harness.desk.open(harness.time), 1)
    with rejected(QueueFull):
        await harness.admit(priority=1)
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


class Sent:
    """A request that is rejected when it is submitted, and whether its tensors are still in memory."""

    def __init__(self, harness: AdmissionHarness) -> None:
        self._harness = harness
        self._tensor: weakref.ref[Tensor]

    async def serve(self, seconds: float | None = None) -> None:
        with self._harness.desk.receive() as ticket:
            self._harness.desk.slots.reserve_slot(ticket, 1)
            request = self._harness.request(ticket, 4, seconds, priority=10)
            self._tensor = weakref.ref(request.inputs["X"])
            await self._harness.desk.serve(ticket, request)

    def in_memory(self) -> bool:
        return self._tensor() is not None


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_request_that_cannot_meet_its_deadline() -> None:
    harness = AdmissionHarness(depth=100)
    harness.report(batch_seconds=2.0)
    tasks = [harness.admit(rows=4) for _ in range(3)]
    await settle()
    late = Sent(harness)
    with pytest.raises(DeadlineTooNear):
        await late.serve(seconds=1)
    assert not late.in_memory()
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_request_that_displaces_no_other() -> None:
    harness, tasks = full_of_the_lowest_class()
    await settle()
    last = Sent(harness)
    with pytest.raises(QueueFull):
        await last.serve()
    assert not last.in_memory()
    harness.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("stage", [Stage.LOADING, Stage.DRAINING, Stage.DEAD])
async def test_a_pod_that_does_not_serve_rejects_with_retry_after(stage: Stage) -> None:
    harness = AdmissionHarness()
    harness.health.stage = stage
    with rejected(NotServing) as info:
        await harness.admit()
    assert info.value.status == 503
    assert info.value.retry_after_seconds == 1
    assert harness.counters.rejected == {stage.value: 1}


async def test_a_stopping_pod_still_accepts_for_a_while() -> None:
    harness = AdmissionHarness()
    harness.health.stage = Stage.CLOSING
    task = harness.admit()
    await settle()
    harness.desk.deliver([(harness.ids()[0], DONE)])
    assert await task == DONE


async def test_a_disconnect_frees_the_slot_and_cancels_the_request() -> None:
    harness = AdmissionHarness(depth=1)
    task = harness.admit()
    await settle()
    task.cancel()
    await asyncio.wait([task])
    assert harness.sent[-1] == Cancel((harness.ids()[0],))
    assert harness.desk.empty()
    harness.desk.deliver([(harness.ids()[0], DONE)])
    assert harness.counters.ended[RequestOutcome.CANCELLED] == 1
    assert harness.counters.settled() == harness.counters.received == 1


async def test_a_disconnect_as_the_batch_ends_does_not_affect_others() -> None:
    harness = AdmissionHarness()
    gone, mate = harness.admit(), harness.admit()
    await settle()
    gone.cancel()
    harness.desk.deliver((name, DONE) for name in harness.ids())
    assert await mate == DONE
    await asyncio.wait([gone])
    assert gone.cancelled()
    assert (
        harness.counters.ended[RequestOutcome.CANCELLED]
        == harness.counters.ended[RequestOutcome.COMPLETED]
        == 1
    )
    assert harness.desk.empty()


async def test_a_disconnect_after_the_end_is_counted_once() -> None:
    harness = AdmissionHarness()
    task = harness.admit()
    await settle()
    harness.desk.deliver([(harness.ids()[0], Expired(1.0))])
    task.cancel()
    await asyncio.wait([task])
    assert harness.counters.ended[RequestOutcome.EXPIRED] == 1
    assert harness.counters.ended[RequestOutcome.CANCELLED] == 0
    assert not any(isinstance(message, Cancel) for message in harness.sent)


async def test_completed_requests_are_timed_from_arrival() -> None:
    harness = AdmissionHarness()
    task = harness.admit()
    await settle()
    harness.time += 2.0
    harness.desk.deliver([(harness.ids()[0], DONE)])
    await task
    assert harness.counters.request_seconds.total == 2.0
    assert harness.counters.queue_seconds.total == 0.5
