"""Several engines behind one queue: requests, caps and reports are divided and joined, and the engines end together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.link.base import ModelLoadFailed
from penstock_runtime.engine.link.batch import data_parallel_link
from penstock_runtime.engine.link.merged_reports import cap_shares, merged
from penstock_runtime.engine.messages import Cancel, EngineReport, SetLimits
from penstock_runtime.engine.model import Model
from penstock_runtime.engine.service_time import fit
from penstock_runtime.request import Cancelled, Completed
from tests.unit.runtime.engine.dynamic.builders import a_request, answer, limits
from tests.unit.runtime.engine.link.conftest import Client
from tests.unit.runtime.engine.link.models import (
    LETHAL,
    Gate,
    Gated,
    failing,
    short_lived,
    slow_to_load,
)


@pytest_asyncio.fixture
async def clients() -> AsyncIterator[list[Client]]:
    """Links that are closed at the end."""
    started: list[Client] = []
    yield started
    for client in started:
        await client.link.close()


async def two_engines(clients: list[Client], load: Callable[[], Model], cap: int) -> Client:
    client = Client(data_parallel_link([load, load], limits(cap=cap)))
    clients.append(client)
    await client.start()
    return client


async def test_batches_run_at_once_within_the_cap(clients: list[Client], gate: Gate) -> None:
    client = await two_engines(clients, partial(Gated, gate), cap=3)
    assert client.settled[-1].report.batch_cap_bound == 128
    gate.shut()
    client.submit(*(a_request(str(n), value=n + 100) for n in range(5)))
    for _ in range(2):
        assert await asyncio.to_thread(gate.entered)
    assert sorted(gate.batches) == [1, 2], "a cap of 3 is 2 and 1"
    await client.until(lambda: client.settled[-1].report.running == 3)
    assert client.settled[-1].report.waiting == 2
    gate.open()
    ends = await client.ends_of(*(str(n) for n in range(5)))
    assert [answer(end) for end in ends] == [2.0 * (n + 100) for n in range(5)]


async def test_a_request_goes_to_the_engine_with_the_fewest_rows(
    clients: list[Client], gate: Gate
) -> None:
    client = await two_engines(clients, partial(Gated, gate), cap=16)
    gate.shut()
    client.submit(a_request("long", rows=6))
    assert await asyncio.to_thread(gate.entered)
    client.submit(*(a_request(str(n)) for n in range(4)))
    assert await asyncio.to_thread(gate.entered)
    await client.until(lambda: client.settled[-1].report.running == 5)
    assert client.settled[-1].report.waiting == 0
    gate.open()
    await client.ends_of("long", "0", "1", "2", "3")
    assert sorted(gate.batches) == [4, 6]


async def test_limits_are_in_force_once_every_engine_has_them(
    clients: list[Client], gate: Gate
) -> None:
    client = await two_engines(clients, partial(Gated, gate), cap=2)
    gate.shut()
    client.submit(a_request("running"))
    assert await asyncio.to_thread(gate.entered)
    client.send(SetLimits(limits(cap=1, generation=7)))
    await client.until(lambda: client.settled[-1].report.converging)
    assert client.settled[-1].report.generation < 7
    gate.open()
    await client.until(lambda: client.settled[-1].report.generation == 7)
    assert not client.settled[-1].report.converging
    client.submit(*(a_request(str(n)) for n in range(3)))
    await client.ends_of("running", "0", "1", "2")
    assert gate.batches == [1, 1, 1, 1], "one engine has the whole cap of 1"


async def test_a_cancelled_request_is_cancelled_where_it_waits(
    clients: list[Client], gate: Gate
) -> None:
    client = await two_engines(clients, partial(Gated, gate), cap=2)
    gate.shut()
    client.submit(*(a_request(str(n)) for n in range(4)))
    for _ in range(2):
        assert await asyncio.to_thread(gate.entered)
    client.send(Cancel(("3", "unknown")))
    await client.sent()
    gate.open()
    *others, cancelled = await client.ends_of("0", "1", "2", "3")
    assert cancelled == Cancelled()
    assert all(isinstance(end, Completed) for end in others)
    assert gate.batches == [1, 1, 1]


async def test_an_engine_that_dies_ends_them_all_and_is_named(clients: list[Client]) -> None:
    client = await two_engines(clients, Gated, cap=2)
    client.submit(a_request("good"), a_request("lethal", value=LETHAL))
    await client.until(lambda: bool(client.deaths))
    assert len(client.deaths) == 1
    assert client.deaths[0].reason.startswith("engine 1 of 2: ")


async def test_a_model_that_one_engine_cannot_load_is_reported_with_the_engine() -> None:
    link = data_parallel_link([Gated, failing], limits(cap=2))
    with pytest.raises(ModelLoadFailed, match="engine 1 of 2: "):
        await link.start(lambda _: None)
    await link.close()


async def test_an_engine_that_dies_while_another_loads_is_the_one_that_is_named() -> None:
    link = data_parallel_link([slow_to_load, short_lived], limits(cap=2))
    delivered: list[object] = []
    with pytest.raises(ModelLoadFailed, match=r"^engine 1 of 2: its process ended"):
        await link.start(delivered.append)
    assert delivered == []
    await link.close()


@given(cap=st.integers(1, 1024), engines=st.integers(1, 16))
def test_the_parts_of_a_cap_are_all_of_it(cap: int, engines: int) -> None:
    shares = cap_shares(cap, engines)
    assert sum(shares) == cap
    assert max(shares) - min(shares) <= 1


@given(
    engines=st.integers(1, 8),
    sizes=st.lists(st.integers(1, 64), min_size=2, max_size=20, unique=True),
)
def test_engines_are_one_device_with_the_line_of_their_batches_at_once(
    engines: int, sizes: list[int]
) -> None:
    """t(n b) of all engines is t(b) of one: the same fixed time, and a row costs its `engines`th part."""
    fixed, row = 0.05, 0.004
    reports = []
    for _ in range(engines):
        curve = BatchServiceCurve()
        for size in sizes:
            curve.note(size, fixed + row * size)
        reports.append(EngineReport(1, 2, 3, converging=False, batch_cap_bound=64, busy_seconds=8.0, curve=curve.sums()))  # fmt: skip
    whole = merged(reports)
    line = fit(whole.curve)
    assert line.fixed_seconds == pytest.approx(fixed, rel=1e-6)
    assert line.row_seconds == pytest.approx(row / engines, rel=1e-6)
    assert (whole.running, whole.waiting, whole.busy_seconds) == (2 * engines, engines, 8.0)
    assert whole.batch_cap_bound == 64 * engines
    by_size = whole.curve.by_size
    assert sum(by_size[0::3]) == pytest.approx(whole.curve.batches)
    assert sum(by_size[1::3]) == pytest.approx(whole.curve.cost_units)
    assert sum(by_size[2::3]) == pytest.approx(whole.curve.seconds)
