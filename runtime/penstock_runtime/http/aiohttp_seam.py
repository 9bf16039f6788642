"""The seam to aiohttp: everything of its server that Penstock uses and aiohttp does not declare public.

`tests/unit/runtime/http/test_aiohttp_seam.py` pins these names: it fails with the name when a release of aiohttp changes one.
"""

import logging
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override


class AiohttpConnection(web.RequestHandler):
    """aiohttp's protocol of one connection, with its internal state as named questions."""

    __slots__ = ()

    def owes_answers(self) -> bool:
        """Return whether aiohttp handles a request or has read one that it will handle."""
        return self._current_request is not None or bool(self._messages)

    def has_pipelined_requests(self) -> bool:
        """Return whether aiohttp has read requests that it does not handle yet."""
        return bool(self._messages)

    def may_bypass(self) -> bool:
        """Return whether the next bytes may skip aiohttp: it waits for a request, and the connection stays open."""
        if self._close or self._force_close:
            return False
        if not self._request_count:
            return True
        waiter = self._waiter
        return (
            waiter is not None and not waiter.done() and not self._messages and not self._upgraded
        )

    def is_bypassed(self) -> bool:
        """Return whether a request that aiohttp does not know of is in progress; the keep-alive timer then starts again."""
        return False

    def restart_keepalive(self) -> None:
        """Let the keep-alive time-out begin now."""
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    @override
    def _process_keepalive(self) -> None:
        if not self.is_bypassed():
            super()._process_keepalive()
        elif not self._force_close:
            self._keepalive_handle = self._loop.call_later(
                self._keepalive_timeout, self._process_keepalive
            )


class ClientsServer(web.Server):
    """A copy of aiohttp's server for an application that creates another protocol for each connection."""

    def __init__(self, server: web.Server, connection: Callable[..., web.RequestHandler]) -> None:
        vars(self).update(vars(server))
        self._connection = connection

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return self._connection(self, loop=self._loop, **self._kwargs)


class ClientsRunner(web.AppRunner):
    """Runs an application with a given protocol."""

    __slots__ = ("_connection",)

    def __init__(
        self, app: web.Application, connection: Callable[..., web.RequestHandler], **more: object
    ) -> None:
        """`connection` creates the protocol of each new connection, from the server and the arguments of aiohttp's own."""
        super().__init__(app, **more)  # type: ignore[arg-type]
        self._connection = connection

    @override
    async def _make_server(self) -> web.Server:
        return ClientsServer(await super()._make_server(), self._connection)


def log_broken_http_in_one_line() -> None:
    """Log a client's broken framing without a trace: any client can cause it."""
    logging.getLogger("aiohttp.server").addFilter(_without_trace)


def _without_trace(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError):
        record.msg, record.args = "a client sent broken HTTP: %r", (str(error),)
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True
