"""HTTP client for all calls to pods, to Prometheus and to batch services (docs/design/design.md#outgoing-calls).

No redirects, a 2 s timeout unless the call has its own, a bounded response, http(s) only, no proxies, no cookies, no decompression.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from yarl import URL

CALL_SECONDS = 2.0


class CallFailed(Exception):
    """No usable response; the message is stable while the cause is, because it becomes part of a condition."""


class NoResponse(CallFailed):
    """The server was silent until the call's time ended."""


def new_session(trust: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """Return a session; the caller closes it.

    It has no limit of connections, because a call's time would begin while it waits for one: `PodCalls` bounds calls to pods.
    `trust` verifies the servers' certificates; None: the system's CAs.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=trust or True),
        timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        headers={"Accept-Encoding": "identity", "User-Agent": "penstock-operator"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def pod_url(ip: str, port: int, path: str, tls_name: str | None = None) -> URL:
    """Return the URL of a pod's endpoint, https where it has a `tls_name`; yarl brackets IPv6 addresses."""
    return URL.build(scheme="https" if tls_name else "http", host=ip, port=port, path=path)


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request, with the largest acceptable response."""

    method: str
    url: URL
    limit_bytes: int
    headers: Mapping[str, str] | None = None
    data: bytes | Mapping[str, str] | None = None
    tls: ssl.SSLContext | None = None
    """TLS context; None: the session's own, or else the system's CAs."""
    tls_name: str | None = None
    """DNS name that the certificate must contain; None: the URL's host."""
    seconds: float | None = None
    """Time limit; None: `CALL_SECONDS`."""


async def call(session: aiohttp.ClientSession, request: HttpCall) -> tuple[int, bytes]:
    """Return (status, body). Raises `CallFailed` for a redirect, an oversized or a missing response."""
    if request.url.scheme not in {"http", "https"}:
        raise CallFailed(f"{request.url.scheme} is not http or https")
    seconds = CALL_SECONDS if request.seconds is None else request.seconds
    try:
        async with session.request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.data,
            allow_redirects=False,
            ssl=True if request.tls is None else request.tls,
            server_hostname=request.tls_name,
            timeout=aiohttp.ClientTimeout(total=seconds),
        ) as response:
            if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
                raise CallFailed(f"responded {response.status}: redirects are not followed")
            return response.status, await _body(response, request.limit_bytes)
    except TimeoutError as error:
        raise NoResponse(f"did not respond within {seconds:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CallFailed(f"is unreachable: {_cause(error)}") from error


async def _body(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit_bytes:
            raise CallFailed(f"responded with more than {limit_bytes} bytes")
    return bytes(body)


def _cause(error: Exception) -> str:
    """Return the cause without addresses or numbers, so that the message does not change every tick."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is for another name, or not signed by a trusted CA"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "the TLS handshake failed"
    errno = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    return os.strerror(errno) if errno else type(error).__name__
