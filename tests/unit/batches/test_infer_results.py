"""Results of infer requests: sent in pieces, whatever their size."""

import asyncio
import contextlib
import resource
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from penstock_batches.http import infer
from penstock_batches.records import Status
from penstock_batches.results import PoolReply, response_line
from tests.support.batches.served import Served, api_only, settings
from tests.unit.batches.values import batch

PATH = "/v2/models/demo/infer/infer_1"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def answered(service: Served, reply: PoolReply) -> None:
    """Record a request that has ended with the response of a pool."""
    part = service.service.payloads.part()
    await asyncio.to_thread(part.write, response_line("infer_1", 1, "infer", reply))
    await asyncio.to_thread(part.commit, "file-out")
    ended = batch(
        id="infer_1",
        endpoint="/v2/models/demo/infer",
        status=Status.COMPLETED,
        completed_at=2e9,
        infer=True,
        output_file_id="file-out",
    )
    await service.service.store.add_batch(ended)


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b'{"body":"\\"body\\":"}'), (422, b"1"), (200, b'"' + b"x" * 2**20 + b'"')],
)
async def test_a_result_has_status_and_body_of_the_pool_to_the_byte(
    tmp_path: Path, status: int, body: bytes
) -> None:
    async with api_only(settings(tmp_path)) as service, aiohttp.ClientSession() as session:
        await answered(service, PoolReply(status, ',"body":', body))
        async with session.get(service.url + PATH) as reply:
            assert (reply.status, await reply.read()) == (status, body)
            assert reply.headers["Content-Type"].startswith("application/json")
        async with session.head(service.url + PATH) as reply:
            assert int(reply.headers["Content-Length"]) == len(body)
        before = open_descriptors()
        async with session.get(service.url + PATH) as reply:
            await reply.read()
        assert open_descriptors() <= before


async def test_clients_that_do_not_read_large_results_take_no_memory(tmp_path: Path) -> None:
    size, clients = 24 * 2**20, 8
    async with api_only(settings(tmp_path)) as service:
        await answered(service, PoolReply(200, "r", b'"' + b"x" * size + b'"'))
        before = resident_bytes()
        writers = []
        for _ in range(clients):
            address = urlsplit(service.url)
            assert address.hostname is not None
            reader, writer = await asyncio.open_connection(
                address.hostname, address.port, limit=2**16
            )
            writers.append(writer)
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b" 200 " in await reader.readline()
        await asyncio.sleep(0.3)
        assert resident_bytes() - before < clients * infer.CHUNK_BYTES + size
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
