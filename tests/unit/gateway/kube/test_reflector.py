"""Lists and watches: what is known stays known, whatever the API server does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from penstock_gateway.gateway import PODS
from penstock_gateway.kube import reflector as module
from penstock_gateway.kube.api_server import ApiServer
from penstock_gateway.kube.reflector import Reflector
from penstock_gateway.objects import WatchedPod
from tests.support.gateway import api_server
from tests.support.gateway.api_server import pod
from tests.unit.gateway.values import SETTINGS

WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.01, 0.02))


@asynccontextmanager
async def watching(server: api_server.ApiServer) -> AsyncIterator[Reflector[WatchedPod]]:
    """Run a reflector of the pods."""
    api = ApiServer(replace(SETTINGS, api_server=server.url))
    reflector = Reflector(api, PODS, lambda: None, time.monotonic)
    running = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await api.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def known(reflector: Reflector[WatchedPod]) -> dict[str, str] | None:
    """Return the addresses by name; None: not listed yet."""
    if reflector.objects is None:
        return None
    return {pod.metadata.name: pod.status.ip for pod in reflector.objects}


async def test_objects_are_those_of_the_list_then_of_the_watch() -> None:
    async with api_server.serving() as server:
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: known(reflector) == {"a-1": "10.0.0.1"})
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await server.put("pods", pod("a-1", "a", "10.0.0.9"))
            await until(lambda: known(reflector) == {"a-1": "10.0.0.9", "a-2": "10.0.0.2"})
            await server.delete("pods", "a-1")
            await until(lambda: known(reflector) == {"a-2": "10.0.0.2"})
            assert server.lists == 1


async def test_the_first_object_of_an_empty_list_is_known() -> None:
    async with api_server.serving() as server, watching(server) as reflector:
        await until(lambda: server.watches == 1)
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        await until(lambda: known(reflector) == {"a-1": "10.0.0.1"})


async def test_a_watch_that_ends_opens_again_where_it_ended() -> None:
    async with api_server.serving() as server:
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: server.watches == 1)
            await server.end_watches()
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await until(lambda: known(reflector) == {"a-1": "10.0.0.1", "a-2": "10.0.0.2"})
            assert server.lists == 1


async def test_an_expired_version_lists_again_and_drops_what_was_deleted_unseen() -> None:
    async with api_server.serving() as server:
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: server.watches == 1)
            await server.stop()
            await server.delete("pods", "a-1")
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await server.expire()
            await server.start()
            await until(lambda: known(reflector) == {"a-2": "10.0.0.2"})
            assert server.lists == 2


async def test_an_expired_version_is_listed_without_the_delays_of_an_outage_that_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.01, 0.01, 3.0, 30.0))
    async with api_server.serving() as server:
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: server.watches == 1)
            server.status = 503
            await server.end_watches()
            await until(lambda: server.errors >= 2)
            server.status = 200
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await server.expire()
            await until(lambda: server.watches >= 2)  # it is answered with a 410
            begin = time.monotonic()
            await until(lambda: known(reflector) == {"a-1": "10.0.0.1", "a-2": "10.0.0.2"})
            assert time.monotonic() - begin < 15


async def test_an_api_server_that_is_away_changes_nothing_and_returns() -> None:
    async with api_server.serving() as server:
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: server.watches == 1)
            await server.stop()
            server.status = 503
            await server.start()
            await until(lambda: server.errors >= 1)
            before = reflector.last_contact
            await until(lambda: server.errors >= 3)
            assert known(reflector) == {"a-1": "10.0.0.1"}
            assert reflector.last_contact == before
            server.status = 200
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await until(lambda: known(reflector) == {"a-1": "10.0.0.1", "a-2": "10.0.0.2"})


async def test_watches_that_keep_ending_at_once_hide_no_change() -> None:
    async with api_server.serving() as server:
        server.silent = True
        await server.put("pods", pod("a-1", "a", "10.0.0.1"))
        async with watching(server) as reflector:
            await until(lambda: server.watches == 2)
            await server.delete("pods", "a-1")
            await server.put("pods", pod("a-2", "a", "10.0.0.2"))
            await until(lambda: known(reflector) == {"a-2": "10.0.0.2"})


async def test_a_list_that_fails_leaves_the_objects_unknown_and_not_empty() -> None:
    async with api_server.serving() as server:
        server.status = 403
        async with watching(server) as reflector:
            await until(lambda: server.errors >= 3)
            assert reflector.objects is None
            server.status = 200
            await until(lambda: known(reflector) == {})
