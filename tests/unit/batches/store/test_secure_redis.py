"""A Redis with TLS and ACL: a client that is not trusted gets nothing, and a user reaches the keys of its namespace alone."""

from pathlib import Path

import pytest

from penstock_batches.errors import StoreUnavailable
from penstock_batches.store.redis import RedisStore, RedisTls
from tests.support.pages.blocks import DOCS
from tests.unit.batches.conftest import RIGHTS, SecureRedis
from tests.unit.batches.values import in_progress
from tests.unit.operator.net.certificates import Authority


async def opening(store: RedisStore) -> None:
    try:
        await store.open()
    finally:
        await store.close()


async def test_a_user_reaches_the_keys_of_its_namespace_alone(secure_redis: SecureRedis) -> None:
    store = RedisStore(secure_redis.url, "team-b", secure_redis.files)
    try:
        await store.open()
        with pytest.raises(StoreUnavailable, match="no permissions"):
            await store.add_batch(in_progress())
    finally:
        await store.close()


@pytest.mark.parametrize("user", ["", "batches:another@", "another:a-secret@"])
async def test_another_user_or_password_is_refused(secure_redis: SecureRedis, user: str) -> None:
    url = secure_redis.server.url_of(user)
    with pytest.raises(
        StoreUnavailable, match=r"invalid username-password pair|already authenticated"
    ):
        await opening(RedisStore(url, "team-a", secure_redis.files))


async def test_a_server_of_another_authority_is_not_trusted(
    secure_redis: SecureRedis, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    other.write_text(Authority.make().pem())
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await opening(
            RedisStore(secure_redis.url, "team-a", secure_redis.files._replace(ca_file=other))
        )


async def test_a_server_with_another_name_is_not_trusted(secure_redis: SecureRedis) -> None:
    url = secure_redis.url.replace("localhost", "127.0.0.1")
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await opening(RedisStore(url, "team-a", secure_redis.files))


async def test_a_client_without_the_certificate_that_the_server_requires_is_refused(
    secure_redis: SecureRedis,
) -> None:
    with pytest.raises(StoreUnavailable):
        await opening(RedisStore(secure_redis.url, "team-a", RedisTls(secure_redis.files.ca_file)))


async def test_a_client_without_tls_is_refused(secure_redis: SecureRedis) -> None:
    url = secure_redis.url.replace("rediss://", "redis://")
    with pytest.raises(StoreUnavailable):
        await opening(RedisStore(url, "team-a"))


def test_the_rights_are_those_of_the_page() -> None:
    page = (DOCS / "how-to" / "batch-work.md").read_text(encoding="utf-8")
    assert f"user batches on >a-long-password {RIGHTS.replace('team-a*', 'team-a}:*')}" in page
