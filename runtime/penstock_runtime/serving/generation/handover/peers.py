"""`Peers`: the other pods of the pool, reached by the pool's own address, which spreads requests over ready pods."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import orjson
from aiohttp import hdrs

from penstock_api import names
from penstock_runtime.errors import PenstockError
from penstock_runtime.serving.generation.handover.messages import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    WireEvent,
    decode_events,
)

CONNECT_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 30.0
"""Time without a frame, after which a pod counts as dead; a living one sends a frame every `PING_SECONDS`."""
PING_SECONDS: Final = 5.0
MIN_ABSENT_SECONDS: Final = 60.0
"""Shortest wait for a pod that accepts a generation; a pod whose model loads for long is awaited for longer."""
_MAX_SHOWN: Final = 200
_BUSY: Final = frozenset({429, 502, 503, 504})


class PeerFailed(PenstockError):
    """A pod refused the generation, or ended before the generation did."""


class NoPeer(PeerFailed):
    """No pod accepted the generation: none is ready, or all are full. A new pod may be starting."""


class Peers:
    """Calls the pool; each call has a connection of its own, so that a Service chooses a pod again."""

    def __init__(self, url: str, tls_folder: Path | None = None) -> None:
        """`tls_folder` has the certificate that the pods of the pool serve."""
        self._url = url + names.PATH_HANDOVER
        self.absent_seconds = MIN_ABSENT_SECONDS
        """How long a draining pod waits for another that accepts a generation; a new one loads the model first."""
        self._tls_folder = tls_folder
        self._session: aiohttp.ClientSession | None = None

    async def events(
        self, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncGenerator[list[WireEvent], None]:
        """Yield the events of a continuation on another pod until its connection ends.

        Raises:
            NoPeer: no pod accepts it now.
            PeerFailed: a pod refuses it, or its connection broke.
        """
        sent = {hdrs.CONTENT_TYPE: "application/json", **headers}
        try:
            async with self._opened().post(
                self._url, data=orjson.dumps(body), headers=sent, allow_redirects=False
            ) as reply:
                if reply.status != 200:
                    text = (await reply.content.read(_MAX_SHOWN)).decode(errors="replace")
                    failure = NoPeer if reply.status in _BUSY else PeerFailed
                    raise failure(f"refused with {reply.status}: {text}")
                while True:
                    yield decode_events(await _frame(reply.content))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NoPeer(f"{type(error).__name__}: {error}"[:_MAX_SHOWN]) from error
        except (OSError, aiohttp.ClientError, asyncio.IncompleteReadError, ValueError) as error:
            raise PeerFailed(f"{type(error).__name__}: {error}"[:_MAX_SHOWN]) from error

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = True if self._tls_folder is None else _pinned(self._tls_folder)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS
                ),
            )
        return self._session


async def _frame(content: aiohttp.StreamReader) -> bytes:
    size = int.from_bytes(await content.readexactly(LENGTH_BYTES))
    if size > MAX_FRAME_BYTES:
        raise msgspec.DecodeError(f"a frame of {size} bytes, more than {MAX_FRAME_BYTES}")
    return await content.readexactly(size)


def _pinned(folder: Path) -> ssl.SSLContext:
    """Return a context that trusts the pool's own certificate: the others serve it from the same Secret."""
    context = ssl.create_default_context(cafile=folder / "tls.crt")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
