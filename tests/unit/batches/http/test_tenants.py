"""A tenant, known by its API key, sees no other's files and batches."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from penstock_batches.records import Counts, File
from tests.support.batches.redis_server import RedisServer
from tests.support.batches.served import Served, api_only, settings, until

KEYS = [
    {"key": "key-of-search", "tenant": "search"},
    {"key": "another-of-search", "tenant": "search"},
    {"key": "key-of-chat", "tenant": "chat"},
]
SHARE = 8
"""Uploads of one tenant at one time, of 16."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": KEYS}))
    async with api_only(settings(tmp_path, api_keys_file=str(keys))) as running:
        assert running.service.ring is not None
        running.service.ring.reload()
        yield running


async def test_requests_without_a_valid_key_are_refused(served: Served) -> None:
    async with served.client("wrong-key") as stranger:
        with pytest.raises(openai.AuthenticationError) as caught:
            await stranger.files.list()
        assert caught.value.code == "invalid_api_key"
        with pytest.raises(openai.AuthenticationError):
            await stranger.files.create(file=b"x", purpose="batch")
        with pytest.raises(openai.AuthenticationError):
            await stranger.batches.cancel("batch_1")


async def test_keys_of_one_tenant_share_and_another_tenant_sees_nothing(served: Served) -> None:
    search, more, chat = (served.client(each["key"]) for each in KEYS)
    async with search, more, chat:
        uploaded = await search.files.create(file=b"{}\n", purpose="batch")
        batch = await search.batches.create(
            input_file_id=uploaded.id, endpoint="/v1/completions", completion_window="24h"
        )
        assert [each.id async for each in more.files.list()] == [uploaded.id]
        assert (await more.batches.retrieve(batch.id)).id == batch.id
        service = served.service
        service.supervisor.active = [(each, Counts()) for each in await service.store.active()]
        assert batch.id in str(service.status())
        assert "search" not in str(service.status()), "the status needs no key"
        assert [each.id async for each in chat.files.list()] == []
        assert [each.id async for each in chat.batches.list()] == []
        for call in (
            chat.files.retrieve(uploaded.id),
            chat.files.content(uploaded.id),
            chat.files.delete(uploaded.id),
            chat.files.list(after=uploaded.id),
            chat.batches.retrieve(batch.id),
            chat.batches.cancel(batch.id),
            chat.batches.list(after=batch.id),
            chat.batches.create(
                input_file_id=uploaded.id, endpoint="/v1/completions", completion_window="24h"
            ),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert (await search.batches.retrieve(batch.id)).status == "validating"


async def test_a_purpose_in_a_query_names_no_list_of_another_tenant(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    tenants = [{"key": f"key-of-{tenant}", "tenant": tenant} for tenant in ("acme:prod", "prod")]
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": tenants}))
    given = settings(
        tmp_path,
        api_keys_file=str(keys),
        store="Redis",
        redis_url=redis_server.url,
        namespace=str(tmp_path),
    )
    async with api_only(given) as running:
        assert running.service.ring is not None
        running.service.ring.reload()
        acme, prod = (running.client(each["key"]) for each in tenants)
        async with acme, prod:
            await acme.files.create(file=b"{}\n", purpose="batch")
            for purpose in ("batch:acme", "infer", ""):
                assert [each async for each in prod.files.list(purpose=purpose)] == []


async def test_uploads_of_one_tenant_leave_places_to_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()
    store, file = served.service.store, served.service.store.file

    async def waiting(file_id: str) -> File | None:
        await release.wait()
        return await file(file_id)

    search, chat = served.client("key-of-search"), served.client("key-of-chat")
    async with search, chat:
        with monkeypatch.context() as patch:
            patch.setattr(store, "file", waiting)
            uploads = [
                asyncio.create_task(search.files.create(file=b"{}\n", purpose="batch"))
                for _ in range(SHARE)
            ]
            await until(lambda: served.service.files.uploads == SHARE)
            with pytest.raises(openai.RateLimitError, match=f"{SHARE} of them of this tenant"):
                await search.files.create(file=b"{}\n", purpose="batch")
        await chat.files.create(file=b"{}\n", purpose="batch")
        release.set()
        await asyncio.gather(*uploads)
        await search.files.create(file=b"{}\n", purpose="batch")
