"""`Balancer`: sends each connection to a random pod that accepts it, as a Service does."""

import asyncio
import random
from contextlib import suppress


class Balancer:
    """A TCP server on loopback in front of addresses of this machine."""

    def __init__(self, addresses: list[tuple[str, int]], seed: int) -> None:
        """`addresses` are hosts and ports."""
        self._addresses = addresses
        self._random = random.Random(seed)  # noqa: S311  no secret
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for host, port in self._random.sample(self._addresses, len(self._addresses)):
            with suppress(OSError):
                pod = await asyncio.open_connection(host, port)
                await asyncio.gather(_copy(reader, pod[1]), _copy(pod[0], writer))
                return
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(2**16):
            writer.write(chunk)
            await writer.drain()
    writer.close()
