"""Server-sent events (WHATWG HTML, 9.2): a stream that ends visibly, whatever happens."""

import asyncio
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from penstock_api import names
from penstock_runtime.protocols.common.replies import REQUEST_ID

WRITE_SECONDS: Final = 60.0
"""A client whose socket takes nothing for so long is gone, whatever TCP says."""
DONE: Final = b"data: [DONE]\n\n"


def written(objects: list[dict[str, Any]]) -> bytes:
    """Return one event each."""
    return b"".join(b"data: %b\n\n" % orjson.dumps(one) for one in objects)


class EventStream:
    """One answer on its way; nothing is sent before there is something to say, so that a refusal can still be one."""

    def __init__(self, request: web.Request, pod_name: str, *, closes: bool) -> None:
        self._request = request
        self.response = web.StreamResponse(
            headers={
                hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8",
                hdrs.CACHE_CONTROL: "no-cache",
                "X-Accel-Buffering": "no",
                "X-Request-Id": request.get(REQUEST_ID, ""),
                names.HEADER_POD: pod_name,
                hdrs.SERVER: "penstock",
            }
        )
        if closes:
            self.response.force_close()

    @property
    def begun(self) -> bool:
        """Whether the status line is sent: from now on only events can tell anything."""
        return self.response.prepared

    async def send(self, events: bytes) -> None:
        """Send events, in one write; nothing, if there are none.

        Raises:
            ConnectionError: the client is gone, or takes nothing.
        """
        if events:
            await self._write(events)

    async def ping(self) -> None:
        """Send a comment: the answer goes on, only slowly."""
        await self._write(b": ping\n\n")

    async def finish(self, *, done: bool) -> None:
        """Send the end, after `[DONE]` where the protocol has it."""
        if done or not self.begun:
            await self._write(DONE if done else b"")
        await self.response.write_eof()

    async def _write(self, data: bytes) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        transport = self._request.transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            await self.response.write(data)  # it is taken at once
            return
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self.response.write(data)
        except TimeoutError as error:
            if transport is not None:
                transport.abort()
            raise ConnectionError("the client takes nothing") from error
