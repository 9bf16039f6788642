"""What a real Envoy does near its limits of memory and connections: one pool's clients take no other pool down."""

import asyncio
from contextlib import suppress
from pathlib import Path

from tests.support.gateway.api_server import service
from tests.support.gateway.stack import Process
from tests.unit.gateway.envoy.conftest import RunningGateway

MIB = 2**20
HEAP_MIB = 128
OTHER = 10002


def peak_mib(process: Process | None) -> int:
    """Return the most memory that a process has had."""
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) // 1024


async def test_uploads_of_one_client_end_at_the_heap_and_other_pools_are_served(
    gateway: RunningGateway,
) -> None:
    async with gateway(PENSTOCK_HEAP_BYTES=str(HEAP_MIB * MIB)) as stack:
        await stack.api.put("services", service("other", OTHER))
        await stack.start_pod("pod-7", pool="other")
        await stack.until_endpoints(1, "other")
        waiting = asyncio.create_task(stack.client.post(stack.url("/infer?ms=8000"), data=b"a"))
        head = f"POST /infer HTTP/1.1\r\nHost: demo\r\nContent-Length: {51 * MIB}\r\n\r\n"
        uploads = [await asyncio.open_connection(stack.host, 10001) for _ in range(6)]
        idle = peak_mib(stack.envoy)
        for _, writer in uploads:
            writer.write(head.encode())

        async def send(writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                for _ in range(50):  # all but the last MiB
                    writer.write(bytes(MIB))
                    await writer.drain()

        await asyncio.gather(*(send(writer) for _, writer in uploads))
        async with stack.client.post(stack.url("/infer", OTHER), data=b"a") as answer:
            assert answer.status == 200
        assert await stack.is_ready()
        async with await waiting as answer:
            assert answer.status == 200
        assert peak_mib(stack.envoy) - idle < 1.3 * HEAP_MIB
        for _, writer in uploads:
            writer.close()


async def test_idle_connections_of_clients_leave_the_gateway_ready(gateway: RunningGateway) -> None:
    limits = {"PENSTOCK_MAX_CONNECTIONS": "4", "PENSTOCK_MAX_POOL_CONNECTIONS": "4"}
    async with gateway(**limits) as stack:
        idle = [await asyncio.open_connection(stack.host, 10001) for _ in range(8)]
        refused = [asyncio.create_task(reader.read(1)) for reader, _ in idle]
        await asyncio.wait(refused, return_when=asyncio.FIRST_COMPLETED)  # the limit is reached
        assert await stack.is_ready()
        for task, (_, writer) in zip(refused, idle, strict=True):
            task.cancel()
            writer.close()
