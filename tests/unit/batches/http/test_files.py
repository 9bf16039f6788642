"""`/v1/files` as OpenAI's client and as careless clients use it."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import openai
import pytest
from msgspec.structs import replace

from penstock_batches.errors import StoreUnavailable
from penstock_batches.http import upload
from penstock_batches.records import Purpose
from tests.support.batches.served import Served, api_only, settings, until
from tests.unit.batches.values import batch, file

CONTENT = b'{"custom_id": "a"}\n' * 100
MAX_BYTES = 1_000_000


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with api_only(settings(tmp_path, max_file_bytes=MAX_BYTES, max_uploads=2)) as running:
        yield running


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with served.client() as opened:
        yield opened


async def test_a_file_is_uploaded_listed_read_and_deleted(client: openai.AsyncOpenAI) -> None:
    created = await client.files.create(file=("in.jsonl", CONTENT), purpose="batch")
    assert (created.bytes, created.filename, created.purpose) == (1900, "in.jsonl", "batch")
    assert created.object == "file"
    assert created.expires_at is not None
    assert abs(created.expires_at - created.created_at - 30 * 86_400) <= 1
    assert await client.files.retrieve(created.id) == created
    assert [each.id async for each in client.files.list()] == [created.id]
    assert (await client.files.content(created.id)).content == CONTENT
    deleted = await client.files.delete(created.id)
    assert (deleted.id, deleted.deleted) == (created.id, True)
    with pytest.raises(openai.NotFoundError, match="No such File object"):
        await client.files.retrieve(created.id)
    with pytest.raises(openai.NotFoundError):
        await client.files.content(created.id)


async def test_files_come_in_pages_both_ways_and_by_purpose(
    served: Served, client: openai.AsyncOpenAI
) -> None:
    for number in range(5):
        await served.service.store.add_file(file(number))
    await served.service.store.add_file(replace(file(9), purpose=Purpose.BATCH_OUTPUT))
    page = await client.files.list(limit=4)
    assert [each.id for each in page.data] == ["file-9", "file-4", "file-3", "file-2"]
    assert page.has_more
    assert [each.id async for each in page] == [each.id for each in page.data] + [
        "file-1",
        "file-0",
    ]
    ascending = [each.id async for each in client.files.list(limit=2, order="asc", purpose="batch")]
    assert ascending == [f"file-{number}" for number in range(5)]


async def test_a_file_expires_when_its_upload_says(client: openai.AsyncOpenAI) -> None:
    created = await client.files.create(
        file=CONTENT, purpose="batch", expires_after={"anchor": "created_at", "seconds": 7200}
    )
    assert created.expires_at is not None
    assert abs(created.expires_at - created.created_at - 7200) <= 1
    with pytest.raises(openai.BadRequestError, match=r"expires_after.seconds must be .* got 5"):
        await client.files.create(
            file=CONTENT, purpose="batch", expires_after={"anchor": "created_at", "seconds": 5}
        )


async def test_another_purpose_is_refused_with_the_field(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.files.create(file=CONTENT, purpose="vision")
    assert caught.value.param == "purpose"
    assert "must be one of batch, got 'vision'" in caught.value.message


@pytest.mark.parametrize("declared", [True, False])
async def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(
    served: Served, client: openai.AsyncOpenAI, declared: bool
) -> None:
    content = b"x" * (MAX_BYTES + (100_000 if declared else 1))
    with pytest.raises(openai.APIStatusError, match="exceeds 1000000 bytes") as caught:
        await client.files.create(file=content, purpose="batch")
    assert (caught.value.status_code, caught.value.code) == (413, "file_too_large")
    assert_nothing_left(served)


def assert_nothing_left(served: Served) -> None:
    folder = served.service.settings.payload_folder
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert served.service.files.uploads == 0


async def post(served: Served, form: object, **headers: str) -> tuple[int, dict[str, object]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/files", data=form, headers=headers) as reply,
    ):
        return reply.status, (await reply.json())["error"]


async def test_a_body_that_is_no_form_or_lacks_a_part_is_refused(served: Served) -> None:
    status, error = await post(served, b"{}", **{"Content-Type": "application/json"})
    assert (status, error["type"]) == (400, "invalid_request_error")
    lacking = aiohttp.FormData({"purpose": "batch"})
    lacking.add_field("other", b"x", filename="x")
    status, error = await post(served, lacking)
    assert (status, error["param"], error["code"]) == (400, "file", "missing_required_parameter")
    lacking = aiohttp.FormData()
    lacking.add_field("file", CONTENT, filename="x")
    status, error = await post(served, lacking)
    assert (status, error["param"]) == (400, "purpose")
    broken = {"Content-Type": "multipart/form-data; boundary=b"}
    status, _ = await post(served, b"--b\r\nno header", **broken)
    assert status == 400
    empty = aiohttp.FormData({"purpose": "batch"})
    empty.add_field("file", b"", filename="x")
    assert (await post(served, empty))[0] == 400
    assert_nothing_left(served)


async def test_a_field_that_comes_twice_is_refused(served: Served) -> None:
    form = aiohttp.FormData([("purpose", "batch"), ("purpose", "batch")])
    form.add_field("file", CONTENT, filename="x")
    status, error = await post(served, form)
    assert (status, error["param"]) == (400, "purpose")
    assert_nothing_left(served)


async def drip() -> AsyncIterator[bytes]:
    """An upload that does not end."""
    yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    while True:
        await asyncio.sleep(0.05)
        yield b"y"


DRIP = {"Content-Type": "multipart/form-data; boundary=b"}


async def test_an_upload_that_takes_too_long_as_a_whole_is_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "CHUNK_SECONDS", 0.3)
    monkeypatch.setattr(upload, "MIN_BYTES_PER_SECOND", 10 * MAX_BYTES)
    status, error = await post(served, drip(), **DRIP)
    assert (status, error["type"]) == (408, "invalid_request_error")
    assert_nothing_left(served)


async def test_uploads_that_begin_together_are_bounded(
    served: Served, client: openai.AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> int:
        time.sleep(0.2)
        return 2**40

    monkeypatch.setattr(served.service.payloads, "free_bytes", slow)
    uploads = (client.files.create(file=CONTENT, purpose="batch") for _ in range(5))
    results = await asyncio.gather(*uploads, return_exceptions=True)
    assert [isinstance(each, openai.RateLimitError) for each in results].count(True) == 3
    assert served.service.files.uploads == 0


async def test_an_upload_that_is_abandoned_leaves_nothing(served: Served) -> None:
    port = int(served.url.rsplit(":", 1)[1])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + b"y" * 300_000
    )
    await writer.drain()
    await until(lambda: served.service.files.uploads == 1)
    writer.close()
    await until(lambda: served.service.files.uploads == 0)
    assert_nothing_left(served)


async def test_a_volume_without_room_refuses_uploads(tmp_path: Path) -> None:
    async with (
        api_only(settings(tmp_path, min_free_bytes=2**49)) as served,
        served.client() as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.files.create(file=CONTENT, purpose="batch")
        assert caught.value.status_code == 503
        assert caught.value.response.headers["Retry-After"] == "5"
        assert_nothing_left(served)


async def test_a_file_can_be_deleted_while_its_record_needs_its_room(
    served: Served, client: openai.AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await client.files.create(file=CONTENT, purpose="batch")
    path, delete = served.service.payloads.path(created.id), served.service.store.delete_file

    async def delete_file(file_id: str) -> None:
        if path.exists():
            raise StoreUnavailable("database or disk is full")
        await delete(file_id)

    monkeypatch.setattr(served.service.store, "delete_file", delete_file)
    assert (await client.files.delete(created.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(created.id)


async def test_the_input_of_a_running_batch_cannot_be_deleted(
    served: Served, client: openai.AsyncOpenAI
) -> None:
    created = await client.files.create(file=CONTENT, purpose="batch")
    await served.service.store.add_batch(batch(input_file_id=created.id))
    with pytest.raises(openai.ConflictError, match="is the input of batch batch_1"):
        await client.files.delete(created.id)
    assert (await client.files.retrieve(created.id)).id == created.id


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=99999", "order=up", "limit=-1", "limit=1e3"]
)
async def test_a_bad_page_is_refused_with_the_field(served: Served, query: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/v1/files?{query}") as reply,
    ):
        assert reply.status == 400
        assert (await reply.json())["error"]["param"] == query.split("=", maxsplit=1)[0]


async def test_unknown_paths_and_methods_get_openai_errors(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        for method, path, status in (("GET", "/v1/none", 404), ("PUT", "/v1/files", 405)):
            async with session.request(method, served.url + path) as reply:
                assert reply.status == status
                assert (await reply.json())["error"]["type"] == "invalid_request_error"
