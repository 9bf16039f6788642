"""What every placement of an engine must do; a new one joins by a line in conftest's PLACEMENTS."""

import asyncio
import threading
import time
import weakref
from functools import partial

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.loop import IDLE_TICK_SECONDS
from penstock_runtime.engine.link.base import ModelLoadFailed
from penstock_runtime.engine.link.batch import BatchLink
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits, Settled
from penstock_runtime.request import Cancelled, Completed, Expired, Failed
from tests.unit.runtime.engine.dynamic.builders import a_request, answer, limits
from tests.unit.runtime.engine.link.conftest import Client, Connect, Place
from tests.unit.runtime.engine.link.models import (
    BAD,
    LETHAL,
    Gate,
    Gated,
    crashing,
    exiting,
    failing,
)

BEGUN_WITHIN_SECONDS = 3.0
"""A request begins in this time, however busy the machine is."""


async def entered(gate: Gate) -> None:
    """Wait until a batch has reached the gate."""
    assert await asyncio.to_thread(gate.entered)


async def test_the_first_report_comes_before_start_returns(connect: Connect) -> None:
    client = await connect(Gated, limits(generation=5))
    first = client.delivered[0]
    assert isinstance(first, Settled)
    assert (first.report.generation, first.report.batch_cap_bound) == (5, 64)
    assert first.report.curve.batches > 0, "warm-up times are the curve's prior"


async def test_start_returns_what_the_model_says_of_itself(place: Place) -> None:
    client = Client(place(Gated, limits()))
    assert (await client.start()).name == "double"
    await client.link.close()


async def test_requests_are_answered_each_with_its_own_rows(connect: Connect) -> None:
    client = await connect(Gated, limits())
    client.submit(*(a_request(str(n), value=n + 100) for n in range(20)))
    ends = await client.ends_of(*(str(n) for n in range(20)))
    assert [answer(end) for end in ends] == [2.0 * (n + 100) for n in range(20)]


async def test_tensors_of_an_answered_request_are_released(connect: Connect) -> None:
    client = await connect(Gated, limits())
    request = a_request("a", rows=4)
    tensor = weakref.ref(request.inputs["x"])
    client.submit(request)
    del request
    await client.ends_of("a")
    async with asyncio.timeout(60):
        while tensor() is not None:  # noqa: ASYNC110 - what is waited for is another thread's
            await asyncio.sleep(0.005)


async def test_deliveries_happen_in_the_event_loop(place: Place) -> None:
    link, threads = place(Gated, limits()), list[threading.Thread]()
    await link.start(lambda _: threads.append(threading.current_thread()))
    await link.close()
    assert set(threads) == {threading.current_thread()}


async def test_what_arrives_while_a_batch_runs_forms_the_next(connect: Connect, gate: Gate) -> None:
    client = await connect(partial(Gated, gate), limits())
    gate.shut()
    client.submit(a_request("first"))
    await entered(gate)
    for n in range(5):
        client.submit(a_request(str(n)))
    await client.sent()
    gate.open()
    await client.ends_of("first", *(str(n) for n in range(5)))
    assert gate.batches == [1, 5]


async def test_the_report_says_what_runs_while_it_runs(connect: Connect, gate: Gate) -> None:
    client = await connect(partial(Gated, gate), limits(cap=2))
    gate.shut()
    client.submit(*(a_request(str(n)) for n in range(3)))
    await entered(gate)
    await client.until(lambda: client.settled[-1].report.running == 2)
    assert client.settled[-1].report.waiting == 1
    gate.open()
    await client.until(lambda: client.settled[-1].report.running == 0 and len(client.ends) == 3)
    assert client.settled[-1].report.waiting == 0


async def test_one_message_a_step(connect: Connect, gate: Gate) -> None:
    client = await connect(partial(Gated, gate), limits(cap=4))
    gate.shut()
    client.submit(*(a_request(str(n)) for n in range(16)))
    await entered(gate)
    gate.open()
    await client.ends_of(*(str(n) for n in range(16)))
    with_ends = [settled for settled in client.settled if settled.ends]
    assert [len(settled.ends) for settled in with_ends] == [4, 4, 4, 4]
    assert len(client.settled) == 1 + 1 + 4, "the start, the first batch's beginning, four steps"


async def test_a_model_error_fails_its_request_and_the_engine_lives_on(connect: Connect) -> None:
    client = await connect(Gated, limits())
    client.submit(a_request("good"), a_request("bad", value=BAD))
    good, bad = await client.ends_of("good", "bad")
    assert isinstance(good, Completed)
    assert bad == Failed("RuntimeError: a bad row")
    client.submit(a_request("next"))
    assert answer((await client.ends_of("next"))[0]) == 2.0
    assert client.deaths == []


async def test_a_request_cancelled_while_waiting_is_never_computed(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits())
    gate.shut()
    client.submit(a_request("running"))
    await entered(gate)
    client.submit(a_request("gone"))
    client.send(Cancel(("gone",)))
    await client.sent()
    gate.open()
    assert await client.ends_of("gone") == [Cancelled()]
    assert gate.batches == [1]


async def test_a_request_cancelled_while_running_ends_cancelled(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits())
    gate.shut()
    client.submit(a_request("gone"), a_request("mate"))
    await entered(gate)
    client.send(Cancel(("gone",)))
    await client.sent()
    gate.open()
    gone, mate = await client.ends_of("gone", "mate")
    assert gone == Cancelled()
    assert answer(mate) == 2.0


async def test_a_deadline_that_passes_behind_a_long_batch_is_reported_while_the_batch_runs(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits())
    gate.shut()
    client.submit(a_request("running"))
    await entered(gate)
    now = time.monotonic()
    client.submit(a_request("patient", arrived=now, deadline=now + 600))
    for name, patience in (("hasty", 0.05), ("hastier", 0.01)):
        now = time.monotonic()
        client.submit(a_request(name, arrived=now, deadline=now + patience))
        (end,) = await client.ends_of(name)
        assert isinstance(end, Expired)
        assert end.waited_seconds >= patience
    assert list(client.ends) == ["hasty", "hastier"], "the batch has not ended"
    gate.open()
    assert answer((await client.ends_of("patient"))[0]) == 2.0
    client.submit(a_request("next"))
    await client.ends_of("next")  # by now nothing has ended twice
    assert gate.batches == [1, 1, 1]


async def test_a_deadline_that_passes_while_its_batch_runs_expires_no_request(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits())
    gate.shut()
    now = time.monotonic()
    client.submit(a_request("begun", arrived=now, deadline=now + BEGUN_WITHIN_SECONDS))
    await entered(gate)
    await asyncio.sleep(now + BEGUN_WITHIN_SECONDS + 0.1 - time.monotonic())
    gate.open()
    assert answer((await client.ends_of("begun"))[0]) == 2.0


async def test_new_limits_are_acknowledged_by_an_idle_engine(connect: Connect) -> None:
    client = await connect(Gated, limits())
    client.send(SetLimits(limits(cap=3, generation=2, discipline=Discipline.PRIORITY)))
    await client.until(lambda: client.settled[-1].report.generation == 2)
    client.submit(*(a_request(str(n)) for n in range(6)))
    await client.ends_of(*(str(n) for n in range(6)))
    assert {settled.batch.rows for settled in client.settled if settled.batch} == {3}


async def test_a_drain_past_its_deadline_fails_what_waits(connect: Connect, gate: Gate) -> None:
    client = await connect(partial(Gated, gate), limits(cap=1))
    gate.shut()
    client.submit(a_request("running"), a_request("waiting"))
    await entered(gate)
    client.send(Drain(deadline=time.monotonic(), retry_after_seconds=3.0))
    await client.sent()
    gate.open()
    running, waiting = await client.ends_of("running", "waiting")
    assert answer(running) == 2.0
    assert waiting == Failed("draining", 3.0)


async def test_the_heartbeat_shows_a_running_batch_and_then_rest(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits())
    assert not client.link.heartbeat().busy
    gate.shut()
    before = time.monotonic()
    client.submit(a_request("a"))
    await entered(gate)
    beat = client.link.heartbeat()
    assert beat.busy
    assert beat.last_step >= before
    assert beat.predicted_seconds > 0.0
    gate.open()
    await client.ends_of("a")
    assert not client.link.heartbeat().busy


async def test_an_idle_engine_shows_that_it_lives_and_that_it_made_no_step(
    connect: Connect,
) -> None:
    client = await connect(Gated, limits())
    client.submit(a_request("a"))
    await client.ends_of("a")
    first = client.link.heartbeat()
    await asyncio.sleep(IDLE_TICK_SECONDS + 1.0)
    later = client.link.heartbeat()
    assert later.alive_at > first.alive_at
    assert (later.busy, later.last_step) == (False, first.last_step)


async def test_the_engines_death_is_reported_once_and_sends_are_ignored_after_it(
    connect: Connect,
) -> None:
    client = await connect(Gated, limits())
    client.submit(a_request("a", value=LETHAL))
    await client.until(lambda: bool(client.deaths))
    client.submit(a_request("b"))
    await client.link.close()
    assert [death.reason for death in client.deaths] == [
        "SystemExit: the model took the engine down"
    ]
    assert client.delivered[-1] is client.deaths[0]


async def test_closing_lets_the_running_batch_finish_and_fails_the_rest(
    connect: Connect, gate: Gate
) -> None:
    client = await connect(partial(Gated, gate), limits(cap=1))
    gate.shut()
    client.submit(a_request("running"), a_request("waiting"))
    await entered(gate)
    closing = asyncio.create_task(client.link.close())
    await asyncio.sleep(0)
    gate.open()
    await closing
    running, waiting = await client.ends_of("running", "waiting")
    assert answer(running) == 2.0
    assert waiting == Failed("the engine was closed", 1.0)


async def test_closing_twice_and_without_a_start_is_harmless(place: Place) -> None:
    link: BatchLink = place(Gated, limits())
    await link.close()
    await link.close()


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (failing, "there is no file '/models/gone.pt2': put it there"),
        (crashing, "the model did not load: KeyError: 'weights\\nand more lines'"),
        (exiting, "the model did not load: SystemExit: 3"),
    ],
)
async def test_a_model_that_does_not_load_says_why_in_one_line(
    place: Place, load: object, reason: str
) -> None:
    link = place(load, limits())  # type: ignore[arg-type]
    with pytest.raises(ModelLoadFailed) as raised:
        await link.start(lambda _: None)
    assert str(raised.value) == reason
    await link.close()


async def test_no_thread_outlives_its_link(place: Place) -> None:
    before = set(threading.enumerate())
    link = place(Gated, limits())
    await link.start(lambda _: None)
    await link.close()
    more = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in more if not name.startswith("asyncio_")] == [], (
        "but for asyncio's pool"
    )
