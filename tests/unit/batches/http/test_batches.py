"""`/v1/batches` as OpenAI's client uses it, and with bad input."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from msgspec.structs import replace

from penstock_batches.http import batches
from penstock_batches.http.batches import MAX_ACTIVE
from penstock_batches.records import Purpose, Status
from tests.support.batches.served import Served, api_only, settings
from tests.unit.batches.values import batch, file


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with api_only(settings(tmp_path)) as running:
        await running.service.store.add_file(file())
        yield running


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with served.client() as opened:
        yield opened


async def test_a_batch_is_created_shown_listed_and_cancelled(client: openai.AsyncOpenAI) -> None:
    created = await client.batches.create(
        input_file_id="file-1",
        endpoint="/v1/completions",
        completion_window="24h",
        metadata={"team": "search"},
    )
    assert (created.status, created.endpoint) == ("validating", "/v1/completions")
    assert created.expires_at == created.created_at + 86_400
    assert created.metadata == {"team": "search"}
    assert created.request_counts is not None
    assert created.request_counts.total == 0
    assert await client.batches.retrieve(created.id) == created
    assert [each.id async for each in client.batches.list()] == [created.id]
    cancelled = await client.batches.cancel(created.id)
    assert cancelled.status == "cancelling"
    assert await client.batches.cancel(created.id) == cancelled


async def test_batches_come_newest_first_in_pages(
    served: Served, client: openai.AsyncOpenAI
) -> None:
    for number in range(5):
        await served.service.store.add_batch(batch(number))
    page = await client.batches.list(limit=2)
    assert [each.id for each in page.data] == ["batch_4", "batch_3"]
    assert page.has_more
    everything = [each.id async for each in client.batches.list(limit=2)]
    assert everything == [f"batch_{number}" for number in (4, 3, 2, 1, 0)]


async def test_a_batch_that_has_ended_cannot_be_cancelled(
    served: Served, client: openai.AsyncOpenAI
) -> None:
    await served.service.store.add_batch(batch(status=Status.COMPLETED))
    with pytest.raises(openai.ConflictError, match="Cannot cancel a batch with status 'completed'"):
        await client.batches.cancel("batch_1")


GOOD = {"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h"}


@pytest.mark.parametrize(
    ("change", "status", "param", "text"),
    [
        ({"input_file_id": None}, 400, "input_file_id", "Missing required parameter"),
        ({"input_file_id": "file-9"}, 404, "id", "No such File object: file-9"),
        ({"input_file_id": "file-out"}, 400, "input_file_id", "got 'batch_output'"),
        ({"input_file_id": 5}, 400, "input_file_id", "must be a text, got 5"),
        ({"endpoint": None}, 400, "endpoint", "Missing required parameter"),
        ({"endpoint": "/v1/images"}, 400, "endpoint", "must be one of /v1/chat/completions"),
        ({"completion_window": None}, 400, "completion_window", "Missing required parameter"),
        ({"completion_window": "soon"}, 400, "completion_window", "such as 24h, got 'soon'"),
        ({"completion_window": "31d"}, 400, "completion_window", "from 1s to 30d"),
        ({"completion_window": "٢h"}, 400, "completion_window", "a duration"),
        ({"metadata": [1]}, 400, "metadata", "an object of at most 16 texts"),
        ({"metadata": {"a": 1}}, 400, "metadata.a", "got 1"),
        ({"metadata": {str(n): "" for n in range(17)}}, 400, "metadata", "at most 16"),
        ({"output_expires_after": {"seconds": 1}}, 400, "output_expires_after.anchor", "got None"),
    ],
)  # fmt: skip
async def test_bad_fields_are_refused_with_field_value_and_rule(
    served: Served, change: dict[str, Any], status: int, param: str, text: str
) -> None:
    await served.service.store.add_file(
        replace(file(), id="file-out", purpose=Purpose.BATCH_OUTPUT)
    )
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/batches", json=GOOD | change) as reply,
    ):
        error = (await reply.json())["error"]
        assert (reply.status, error["param"]) == (status, param)
        assert text in error["message"]
    assert await served.service.store.active() == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 30_000, b" " * 70_000])
async def test_a_body_that_is_no_object_is_refused(served: Served, body: bytes) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/batches", data=body) as reply,
    ):
        assert reply.status == (413 if len(body) > 65_536 else 400)
        assert (await reply.json())["error"]["type"] == "invalid_request_error"


async def test_a_body_that_does_not_arrive_is_an_error_in_the_form_of_openai(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BODY_SECONDS", 0.2)

    async def begun() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(3600)

    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/batches", data=begun()) as reply,
    ):
        assert reply.status == 408
        assert (await reply.json())["error"]["type"] == "invalid_request_error"


async def test_a_tenant_has_so_many_batches_at_one_time(
    served: Served, client: openai.AsyncOpenAI
) -> None:
    for number in range(MAX_ACTIVE):
        await served.service.store.add_batch(batch(number))
    await served.service.store.add_batch(batch(MAX_ACTIVE, status=Status.COMPLETED))
    with pytest.raises(openai.RateLimitError, match="have not ended"):
        await client.batches.create(**GOOD)  # type: ignore[arg-type]
