"""The load generator against a local server: latency, rejections and losses are counted correctly."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from penstock_api.names import HEADER_POD
from tests.support.kube.loopback import listening
from tests.support.load.load import Load
from tests.support.load.samples import answer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


async def right_answer(request: web.Request) -> web.Response:
    (tensor,) = (await request.json())["inputs"]
    rows, features = tensor["shape"]
    matrix = [tensor["data"][row * features : (row + 1) * features] for row in range(rows)]
    data = [value for row in matrix for value in answer(row)]
    body = json.dumps({"outputs": [{**tensor, "name": "OUTPUT", "data": data}]})
    return web.Response(text=body, headers={HEADER_POD: "pod-0"})


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            application = web.Application()
            application.router.add_post("/v2/models/m/infer", handler)
            return await stack.enter_async_context(listening(application, shutdown_seconds=60))

        yield start


@pytest.mark.parametrize("keep_alive", [True, False])
async def test_correct_answers_are_completed_and_counted_by_pod(
    serve: Serve, keep_alive: bool
) -> None:
    async with Load(await serve(right_answer), "m", rate=50, keep_alive=keep_alive) as load:
        while (await load.next()).completed < 30:
            pass
    final = load.final
    assert final.completed == final.sent == final.pods["pod-0"]
    assert (final.lost, final.wrong, final.refused, final.in_flight) == (0, 0, 0, 0)


async def test_a_wrong_value_is_wrong(serve: Serve) -> None:
    async def nearly(request: web.Request) -> web.Response:
        answered = json.loads((await right_answer(request)).body)  # type: ignore[arg-type]
        answered["outputs"][0]["data"][0] += 0.01
        return web.json_response(answered)

    async with Load(await serve(nearly), "m", rate=50) as load:
        await load.next()
    assert load.final.wrong == load.final.sent > 0
    assert "wrong" in load.final.notes[0]


async def test_rejections_and_losses_are_counted_separately(serve: Serve) -> None:
    statuses = iter([429, 503, 500, 503, 200])

    async def refuse(request: web.Request) -> web.Response:
        status = next(statuses, 200)
        if status == 200:
            return await right_answer(request)
        headers = {"Retry-After": "1"} if status == 429 else {}
        return web.Response(status=status, headers=headers)

    async with Load(await serve(refuse), "m", rate=50) as load:
        while (await load.next()).completed < 5:
            pass
    assert (load.final.refused, load.final.lost, load.final.wrong) == (1, 3, 0)


async def test_a_closed_connection_is_lost_and_not_sent_again(serve: Serve) -> None:
    seen = 0

    async def slam(request: web.Request) -> web.Response:
        nonlocal seen
        seen += 1
        assert request.transport
        request.transport.abort()
        return web.Response()

    async with Load(await serve(slam), "m", rate=30) as load:
        await load.next()
    assert load.final.lost == load.final.sent == seen


async def test_a_stalled_server_adds_to_the_latency_of_every_waiting_request(
    serve: Serve,
) -> None:
    goes_on = asyncio.Event()

    async def stall(request: web.Request) -> web.Response:
        await goes_on.wait()
        return await right_answer(request)

    async with Load(await serve(stall), "m", rate=20, constant=True, clients=1) as load:
        while (await load.next()).in_flight < 40:
            pass
        goes_on.set()
    # A closed loop of one client would have sent one slow request; the open one had 40 waiting.
    assert load.final.p50 is not None
    assert load.final.p50 > 500


async def test_the_rate_changes_in_mid_run(serve: Serve) -> None:
    async with Load(await serve(right_answer), "m", rate=0, constant=True) as load:
        assert (await load.next()).sent == 0
        await load.set_rate(100)
        while (before := await load.next()).rate != 100:
            pass
        for _ in range(3):
            after = await load.next()
    seconds = after.second - before.second
    assert after.sent - before.sent == pytest.approx(100 * seconds, rel=0.15)
