"""Credits, refusals and ends at the door, on fake time and without a socket."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock_api.limits import Discipline, LimitsUpdate
from penstock_runtime.engine.messages import Cancel, EngineReport, Submit, ToEngine
from penstock_runtime.engine.queue.disciplines import AGING_SECONDS
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.errors import DeadlineTooNear, NotServing, QueueFull, RequestRejected
from penstock_runtime.request import Completed, Expired, Failed, Request, RequestOutcome, Tensor
from penstock_runtime.serving.admission import Admission
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.ticket import Ticket


class Door:
    """An admission desk, what it sent to the engine, and a clock that a test moves."""

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
        self.desk = Admission(
            self.sent.append, self.live, self.health, self.counters, now=lambda: self.time
        )

    def report(self, waiting: int = 0, running: int = 0, batch_seconds: float = 0.0) -> None:
        """Let the engine say how it stands; every batch of 4 rows took `batch_seconds`."""
        curve = ServiceTimeSums(
            batches=10,
            cost_units=40,
            cost_units_squared=160,
            seconds=10 * batch_seconds,
            cost_unit_seconds=40 * batch_seconds,
        )
        self.live.deliver(EngineReport(waiting, running, 1, False, 64, 0.0, curve))

    def ask(
        self, rows: int = 1, seconds: float | None = None, priority: int = 0
    ) -> asyncio.Task[Any]:
        """Bring one request through the door."""

        async def one() -> Any:
            with self.desk.receive() as ticket:
                self.desk.reserve_slot(ticket, priority)
                self.desk.count_rows(ticket, rows)
                return await self.desk.serve(ticket, self.request(ticket, rows, seconds, priority))

        return asyncio.ensure_future(one())

    def request(
        self, ticket: Ticket, rows: int, seconds: float | None, priority: int = 0
    ) -> Request:
        deadline = None if seconds is None else self.time + seconds
        x: dict[str, Tensor] = {"X": np.zeros((rows, 1), np.float32)}
        return Request(ticket.id, x, rows, (), self.time, deadline, priority)

    def ids(self) -> list[str]:
        return [
            one.id
            for message in self.sent
            if isinstance(message, Submit)
            for one in message.requests
        ]


DONE = Completed({}, queue_seconds=0.5)


@contextmanager
def refused(kind: type[RequestRejected]) -> Iterator[pytest.ExceptionInfo[RequestRejected]]:
    with pytest.raises(kind) as info:
        yield info


async def settle() -> None:
    """Let tasks run as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_full_queue_refuses_with_the_time_that_the_queue_needs() -> None:
    door = Door(depth=2)
    door.report(batch_seconds=3.0)
    tasks = [door.ask(rows=4), door.ask(rows=4)]
    await settle()
    with refused(QueueFull) as info:
        await door.ask()
    assert info.value.retry_after_seconds == 6, "two batches of 3 s wait"
    assert door.counters.refused == {"QueueFull": 1}
    door.desk.deliver((name, DONE) for name in door.ids())
    assert await asyncio.gather(*tasks) == [DONE, DONE]
    assert door.counters.settled() == door.counters.received == 3


async def test_running_requests_hold_no_credit() -> None:
    door = Door(depth=1)
    first = door.ask()
    await settle()
    door.report(waiting=0, running=1)
    second = door.ask()
    await settle()
    assert door.desk.load().model_dump() == {"waiting": 1, "running": 1}
    door.desk.deliver((name, DONE) for name in door.ids())
    assert await first == await second == DONE


async def test_a_request_that_is_made_ready_holds_a_place_and_gives_it_back() -> None:
    door = Door(depth=1)

    async def read_badly() -> None:
        with door.desk.receive() as ticket:
            door.desk.reserve_slot(ticket)
            with refused(QueueFull):
                await door.ask()
            raise RuntimeError("a defect while parsing")

    with pytest.raises(RuntimeError):
        await read_badly()
    assert door.desk.empty()
    assert door.counters.ended[RequestOutcome.FAILED] == 1
    assert door.counters.settled() == door.counters.received == 2


async def test_rows_of_unread_bodies_are_counted_at_the_mean_of_those_read() -> None:
    door = Door(depth=2)
    tasks = [door.ask(rows=2), door.ask(rows=6)]
    await settle()
    with refused(QueueFull):
        await door.ask(rows=100)
    assert door.counters.rows_received == 2 + 6 + 4
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_a_deadline_before_the_predicted_start_is_refused_at_once() -> None:
    door = Door(depth=100, cap=4)
    door.report(batch_seconds=2.0)
    tasks = [door.ask(rows=4) for _ in range(3)]
    await settle()
    with refused(DeadlineTooNear) as info:
        await door.ask(seconds=5.9)
    assert info.value.field == "parameters.timeout"
    assert info.value.retry_after_seconds == 6
    patient = door.ask(seconds=6.1)
    await settle()
    assert len(door.ids()) == 4
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(patient, *tasks)


async def test_nothing_is_refused_on_a_guess_before_any_batch_was_measured() -> None:
    door = Door(depth=100)
    tasks = [door.ask(rows=4, seconds=0.001) for _ in range(5)]
    await settle()
    assert len(door.ids()) == 5
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_a_high_priority_waits_only_for_its_equals() -> None:
    door = Door(depth=100, discipline="Priority")
    door.report(batch_seconds=2.0)
    tasks = [door.ask(rows=4, priority=3) for _ in range(3)]
    await settle()
    with refused(DeadlineTooNear):
        await door.ask(seconds=1, priority=3)
    urgent = door.ask(seconds=1, priority=1)
    await settle()
    assert len(door.ids()) == 4
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(urgent, *tasks)


def full_of_the_lowest_class(discipline: str = "Priority") -> tuple[Door, list[asyncio.Task[Any]]]:
    """Return a door whose queue of two is full, and who waits."""
    door = Door(depth=2, discipline=discipline)
    return door, [door.ask(), door.ask(priority=10)]


async def test_in_a_full_queue_the_last_in_order_of_priority_gives_way() -> None:
    door, (first, last) = full_of_the_lowest_class()
    await settle()
    urgent = door.ask(priority=1)
    await settle()
    with refused(QueueFull):
        await last
    assert door.sent[-2] == Cancel((door.ids()[1],))
    assert door.desk.load().waiting == 2
    second = door.ask(priority=9)
    await settle()
    with refused(QueueFull):
        await first
    with refused(QueueFull):
        await door.ask(priority=9)
    door.desk.deliver((name, DONE) for name in door.ids())
    assert await urgent == await second == DONE
    assert door.counters.refused == {"QueueFull": 3}
    assert door.counters.settled() == door.counters.received == 5
    assert door.desk.empty()


async def test_who_runs_gives_way_to_nobody() -> None:
    door, tasks = full_of_the_lowest_class()
    await settle()
    door.desk.note_begun(door.ids())
    door.report(waiting=0, running=2)
    tasks += [door.ask(priority=1), door.ask(priority=1)]
    await settle()
    with refused(QueueFull):
        await door.ask(priority=1)
    door.desk.deliver((name, DONE) for name in door.ids())
    assert await asyncio.gather(*tasks) == [DONE] * 4


async def test_who_has_waited_long_gives_way_to_nobody_either() -> None:
    door, tasks = full_of_the_lowest_class()
    await settle()
    door.time += 9 * AGING_SECONDS + 1
    with refused(QueueFull):
        await door.ask(priority=1)
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("discipline", ["FirstInFirstOut", "EarliestDeadlineFirst"])
async def test_where_priorities_order_nothing_nobody_gives_way(discipline: str) -> None:
    door, tasks = full_of_the_lowest_class(discipline)
    await settle()
    with refused(QueueFull):
        await door.ask(priority=1)
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


async def test_a_body_that_is_wrong_or_asks_for_less_takes_nobodys_place() -> None:
    door, tasks = full_of_the_lowest_class()
    await settle()
    with door.desk.receive() as ticket:
        door.desk.reserve_slot(ticket, 1)
        with refused(QueueFull):
            await door.desk.serve(ticket, door.request(ticket, 1, None, priority=10))
    with door.desk.receive() as ticket:
        door.desk.reserve_slot(ticket, 1)  # and nothing is submitted
    assert len(door.ids()) == 2
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)
    assert door.desk.empty()


async def test_no_more_requests_are_made_ready_beyond_a_full_queue_than_places_can_be_taken() -> (
    None
):
    door, tasks = full_of_the_lowest_class()
    await settle()
    for _ in range(2):
        door.desk.reserve_slot(door.desk.open(door.time), 1)
    with refused(QueueFull):
        await door.ask(priority=1)
    door.desk.fail_all(Failed("over"))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("stage", [Stage.LOADING, Stage.DRAINING, Stage.DEAD])
async def test_a_pod_that_does_not_serve_says_so_with_retry_after(stage: Stage) -> None:
    door = Door()
    door.health.stage = stage
    with refused(NotServing) as info:
        await door.ask()
    assert info.value.status == 503
    assert info.value.retry_after_seconds == 1
    assert door.counters.refused == {stage.value: 1}


async def test_a_pod_told_to_stop_still_accepts_for_a_while() -> None:
    door = Door()
    door.health.stage = Stage.CLOSING
    task = door.ask()
    await settle()
    door.desk.deliver([(door.ids()[0], DONE)])
    assert await task == DONE


async def test_a_client_that_goes_away_frees_its_slot_and_the_engine_is_told() -> None:
    door = Door(depth=1)
    task = door.ask()
    await settle()
    task.cancel()
    await asyncio.wait([task])
    assert door.sent[-1] == Cancel((door.ids()[0],))
    assert door.desk.empty()
    door.desk.deliver([(door.ids()[0], DONE)])
    assert door.counters.ended[RequestOutcome.CANCELLED] == 1
    assert door.counters.settled() == door.counters.received == 1


async def test_a_client_that_goes_away_as_its_batch_ends_spoils_nobody_elses_end() -> None:
    door = Door()
    gone, mate = door.ask(), door.ask()
    await settle()
    gone.cancel()
    door.desk.deliver((name, DONE) for name in door.ids())
    assert await mate == DONE
    await asyncio.wait([gone])
    assert gone.cancelled()
    assert (
        door.counters.ended[RequestOutcome.CANCELLED]
        == door.counters.ended[RequestOutcome.COMPLETED]
        == 1
    )
    assert door.desk.empty()


async def test_a_client_that_goes_away_after_its_end_is_counted_once() -> None:
    door = Door()
    task = door.ask()
    await settle()
    door.desk.deliver([(door.ids()[0], Expired(1.0))])
    task.cancel()
    await asyncio.wait([task])
    assert door.counters.ended[RequestOutcome.EXPIRED] == 1
    assert door.counters.ended[RequestOutcome.CANCELLED] == 0
    assert not any(isinstance(message, Cancel) for message in door.sent)


async def test_completed_requests_are_timed_from_the_door() -> None:
    door = Door()
    task = door.ask()
    await settle()
    door.time += 2.0
    door.desk.deliver([(door.ids()[0], DONE)])
    await task
    assert door.counters.request_seconds.total == 2.0
    assert door.counters.queue_seconds.total == 0.5
