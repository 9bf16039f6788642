"""Fixtures: the store on both of its backends, with a real Redis."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock_batches.store.base import Store
from penstock_batches.store.redis import RedisStore, RedisTls
from penstock_batches.store.sqlite import SqliteStore
from tests.support.batches.redis_server import RedisServer
from tests.unit.operator.net.certificates import Authority

RIGHTS = "~{penstock:team-a* +@read +@write +@scripting +@transaction +@connection +info"
"""As docs/how-to/batch-work.md has them, with keys of all namespaces that the tests make."""


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server, shared by tests with namespaces of their own."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


class SecureRedis(NamedTuple):
    """A server with TLS that requires certificates of its clients, and whose user may use the keys of `team-a` alone."""

    server: RedisServer
    files: RedisTls
    url: str


@pytest.fixture(scope="session")
def secure_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureRedis]:
    folder = tmp_path_factory.mktemp("secure-redis")
    authority = Authority.make()
    (folder / "ca.crt").write_text(authority.pem())
    authority.issue(folder, "localhost")
    (folder / "data").mkdir()
    users = ["--user", "default", "off", "--user", "batches", "on", ">a-secret", *RIGHTS.split()]
    server = RedisServer(folder / "data", *users, tls=folder)
    server.start()
    files = RedisTls(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    yield SecureRedis(server, files, server.url_of("batches:a-secret@"))
    server.kill()


@pytest.fixture(params=["sqlite", "redis", "secure-redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store."""
    opened: Store
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "store")
    elif request.param == "secure-redis":
        secure: SecureRedis = request.getfixturevalue("secure_redis")
        opened = RedisStore(secure.url, f"team-a/{tmp_path}", secure.files)
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        opened = RedisStore(server.url, str(tmp_path))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", "redis"])
def store_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Settings of a service with each store."""
    if request.param == "sqlite":
        return {}
    server: RedisServer = request.getfixturevalue("redis_server")
    return {"store": "Redis", "redis_url": server.url, "namespace": str(tmp_path)}
