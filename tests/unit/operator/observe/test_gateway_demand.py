"""A held request makes its pool due at once, over real sockets, whatever restarts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from penstock_api import names
from penstock_api.hold import HoldLimits
from penstock_operator.kube import kinds
from penstock_operator.net.http import new_session
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.gateway_demand import LIMIT_BYTES, DemandWatch
from penstock_operator.observe.gateway_status import GatewayReader
from tests.unit.operator.observe.cluster import raw_objects as raw
from tests.unit.operator.observe.cluster.test_gateway import gateway_pod, service, store_with
from tests.unit.operator.observe.signals.exporter import free_address, serving

WAIT_SECONDS = 20.0


@dataclass(slots=True)
class HeldRequests:
    """The `/held` of a gateway's pod: it answers a known version only after a change."""

    address: str = field(default_factory=free_address)
    version: int = 1
    pools: dict[str, dict[str, float]] = field(default_factory=dict)
    calls: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Serve."""
        app = web.Application()
        app.router.add_get(names.PATH_GATEWAY_HELD, self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, names.GATEWAY_STATUS_PORT).start()

    async def stop(self) -> None:
        """Go away; open calls break."""
        assert self._runner is not None
        await self._runner.cleanup()

    async def hold(self, pool: str) -> None:
        """Hold the first request of a pool."""
        async with self._changed:
            self.version += 1
            self.pools[pool] = {"requests": 1, "seconds": 0.0}
            self._changed.notify_all()

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls += 1
        known = request.query["known"]
        async with self._changed:
            await self._changed.wait_for(lambda: known != str(self.version))
        return web.json_response({"version": str(self.version), "pools": self.pools})


def held_store(address: str) -> ObjectStore:
    """Return a store with a pool that is held, and one pod of its gateway."""
    store = store_with(gateway_pod("p1", address))
    announced = service()
    limits = HoldLimits(max_seconds=60, max_requests=10, per_pod=4).as_annotation()
    announced["metadata"]["annotations"][names.ANNOTATION_GATEWAY_HOLD] = limits
    announced["metadata"]["resourceVersion"] = "9"
    store.upsert(kinds.SERVICE, announced)
    return store


@dataclass(slots=True)
class Watched:
    """What became due, and whether this process leads."""

    due: list[str] = field(default_factory=list)
    leads: bool = True
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def enqueue(self, pools: frozenset[str] | None) -> None:
        """Record pools."""
        self.due.extend(pools or ())
        self._changed.set()

    async def until_due(self, times: int) -> None:
        """Wait until a pool became due so often."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.due) < times:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def watching(store: ObjectStore, watched: Watched) -> AsyncIterator[None]:
    """Watch until the block ends."""
    async with new_session() as session:
        reader = GatewayReader(session, store)
        watch = DemandWatch(session, store, reader, watched.enqueue, lambda: watched.leads)
        running = asyncio.create_task(watch.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def test_a_held_request_makes_its_pool_due_and_a_gateway_may_restart() -> None:
    gateway, watched = HeldRequests(), Watched()
    await gateway.start()
    async with watching(held_store(gateway.address), watched):
        await asyncio.sleep(0.3)
        assert watched.due == []
        await gateway.hold("chat")
        await watched.until_due(1)
        await gateway.stop()
        await gateway.start()
        await gateway.hold("chat")
        await watched.until_due(2)
    assert set(watched.due) == {"pool-1"}
    await gateway.stop()


async def test_an_operator_that_restarts_learns_what_is_held() -> None:
    gateway, watched = HeldRequests(), Watched()
    await gateway.start()
    await gateway.hold("chat")
    async with watching(held_store(gateway.address), watched):
        await watched.until_due(1)
    await gateway.stop()


async def test_gateways_are_called_only_for_held_pools_and_by_the_leader() -> None:
    gateway, watched = HeldRequests(), Watched(leads=False)
    await gateway.start()
    async with watching(held_store(gateway.address), watched):
        await asyncio.sleep(0.2)
    async with watching(store_with(gateway_pod("p1", gateway.address)), Watched()):
        await asyncio.sleep(0.2)
    assert gateway.calls == 0
    await gateway.stop()


async def test_a_request_that_a_terminating_gateway_holds_makes_its_pool_due() -> None:
    gateway, watched = HeldRequests(), Watched()
    await gateway.start()
    await gateway.hold("chat")
    store = held_store(gateway.address)
    leaving = gateway_pod("p1", gateway.address, deletionTimestamp=raw.CREATED)
    leaving["metadata"]["resourceVersion"] = "9"
    store.upsert(kinds.POD, leaving)
    async with watching(store, watched):
        await watched.until_due(1)
    await gateway.stop()


@asynccontextmanager
async def answering(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], watched: Watched
) -> AsyncIterator[None]:
    """Watch a gateway's pod with this handler."""
    route = web.get(names.PATH_GATEWAY_HELD, handler)
    async with (
        serving(route, port=names.GATEWAY_STATUS_PORT) as address,
        watching(held_store(address), watched),
    ):
        yield


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"version": "1", "pools": 3}',
        '{"version": "1", "pools": ["chat"]}',
        '{"version": ' + "[" * 50_000,
        '{"pools": {"chat": {}}}',
        "3",
        "",
    ],
)
async def test_an_answer_that_no_gateway_gives_ends_the_watch_without_an_error(body: str) -> None:
    watched, called, watches = Watched(), asyncio.Event(), set[asyncio.Task[None]]()

    async def answer(_: web.Request) -> web.Response:
        watches.update(
            task for task in asyncio.all_tasks() if task.get_name().startswith("demand ")
        )
        called.set()
        return web.Response(text=body)

    async with answering(answer, watched):
        async with asyncio.timeout(WAIT_SECONDS):
            await called.wait()
        (watch,) = watches
        await asyncio.wait_for(watch, WAIT_SECONDS)
    assert watched.due == []


async def test_an_answer_without_end_is_not_read() -> None:
    sent, ended = 0, asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        reply = web.StreamResponse()
        await reply.prepare(request)
        try:
            for _ in range(500):
                await reply.write(b" " * LIMIT_BYTES)
                sent += LIMIT_BYTES
        except ConnectionError:
            pass
        finally:
            ended.set()
        return reply

    async with answering(endless, Watched()):
        async with asyncio.timeout(WAIT_SECONDS):
            await ended.wait()
        assert sent < 100 * LIMIT_BYTES


async def test_a_gateway_that_always_has_news_is_not_called_without_pause() -> None:
    calls, watched = 0, Watched()

    async def news(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({"version": str(calls), "pools": {"chat": {}}})

    async with answering(news, watched):
        await watched.until_due(1)
        before = calls
        await asyncio.sleep(0.5)
        assert calls - before <= 6
