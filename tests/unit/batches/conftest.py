"""Fixtures: the store on both of its backends, with a real Redis."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock_batches.store.base import Store
from penstock_batches.store.redis import RedisStore
from penstock_batches.store.sqlite import SqliteStore
from tests.support.batches.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server, shared by tests with namespaces of their own."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["sqlite", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store."""
    opened: Store
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "store")
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        opened = RedisStore(server.url, str(tmp_path))
    await opened.open()
    yield opened
    await opened.close()
