"""Every call from the operator to a pod or a Prometheus goes through here (docs/design/design.md#outgoing-calls).

No redirects, 2 s, a bound on the answer's size, http(s) only, no proxies, no cookies, no decompression.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from yarl import URL

CALL_SECONDS = 2.0
CONNECTIONS = 128
"""At once, over all pods and servers."""


class CallFailed(Exception):
    """No usable answer; the message says why in words that stay the same while the cause does."""


def new_session(trust: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """Return a session for such calls; its owner closes it.

    `trust` judges the servers' certificates; None: the system's authorities do.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=trust or True),
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
    """One request, and how large its answer may be."""

    method: str
    url: URL
    limit_bytes: int
    headers: Mapping[str, str] | None = None
    data: bytes | Mapping[str, str] | None = None
    tls: ssl.SSLContext | None = None
    """Of https; None: the session's own, else the system's certificates."""
    tls_name: str | None = None
    """The name that an https server's certificate must be for; None: the URL's own host."""


async def call(session: aiohttp.ClientSession, what: HttpCall) -> tuple[int, bytes]:
    """Return (status, body); raises `CallFailed` for a redirect, an oversized or a missing answer."""
    if what.url.scheme not in {"http", "https"}:
        raise CallFailed(f"{what.url.scheme} is not http or https")
    try:
        async with session.request(
            what.method,
            what.url,
            headers=what.headers,
            data=what.data,
            allow_redirects=False,
            ssl=True if what.tls is None else what.tls,
            server_hostname=what.tls_name,
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        ) as response:
            if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
                raise CallFailed(f"answered {response.status}, a redirect, which is never followed")
            return response.status, await _body(response, what.limit_bytes)
    except TimeoutError as error:
        raise CallFailed(f"did not answer within {CALL_SECONDS:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CallFailed(f"could not be reached: {_cause(error)}") from error


async def _body(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit_bytes:
            raise CallFailed(f"answered more than {limit_bytes} bytes")
    return bytes(body)


def _cause(error: Exception) -> str:
    """Return the cause in words without addresses or numbers, so that they do not change by the tick."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not for that name, or of no authority that is trusted here"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "it does not speak TLS as it should"
    errno = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    return os.strerror(errno) if errno else type(error).__name__
