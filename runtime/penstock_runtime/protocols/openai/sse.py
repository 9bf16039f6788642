"""Server-sent events (WHATWG HTML, 9.2): a stream that always ends visibly."""

import time
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from penstock_api import names
from penstock_runtime.protocols.common.replies import REQUEST_ID
from penstock_runtime.protocols.common.request_context import tenant_header

DONE: Final = b"data: [DONE]\n\n"


def written(objects: list[dict[str, Any]]) -> bytes:
    """Return the objects as events."""
    return b"".join(b"data: %b\n\n" % orjson.dumps(event) for event in objects)


class EventStream:
    """The stream of one answer; nothing is sent before the first event, so that an error can still be a status."""

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
                **tenant_header(request),
            }
        )
        if closes:
            self.response.force_close()
        self._written_at = time.monotonic()

    @property
    def begun(self) -> bool:
        """Whether the status line is sent, so that errors can only be events."""
        return self.response.prepared

    @property
    def silent_seconds(self) -> float:
        """Time since the last write; before the first, since the stream was opened."""
        return time.monotonic() - self._written_at

    async def send(self, events: bytes) -> None:
        """Send events in one write, if there are any.

        Raises:
            ConnectionError: the client has left.
        """
        if events:
            await self._write(events)

    async def ping(self) -> None:
        """Send a comment, which keeps the connection alive."""
        await self._write(b": ping\n\n")

    async def finish(self, *, done: bool) -> None:
        """Send the end, after `[DONE]` where the protocol has it."""
        if done or not self.begun:
            await self._write(DONE if done else b"")
        await self.response.write_eof()

    async def _write(self, data: bytes) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        await self.response.write(data)
        self._written_at = time.monotonic()
