"""Both ports over TLS: the fast path, aiohttp's and the control API alike, and a renewal without a restart."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from penstock_api.certificates import KEY_FILE, ServerCertificate
from penstock_runtime.http.tls import watch_certificate
from tests.unit.operator.net.certificates import Authority

NAME = "chat.team-a.svc"


@pytest.fixture(params=[True, False], ids=["fast path", "aiohttp"])
def fast_path(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_both_ports_speak_tls_and_nothing_else(
    start: Any, call: Callable[..., Any], tmp_path: Path
) -> None:
    authority = Authority.make()
    authority.issue(tmp_path / "tls", NAME)
    certificate = ServerCertificate(tmp_path / "tls")
    trust = ssl.create_default_context(cadata=authority.pem())
    pod = await start(tls=certificate.context)
    secure = {"ssl": trust, "server_hostname": NAME}
    async with await pod.infer(call(rows=300), **secure) as reply:
        answer = await reply.json()
    assert reply.status == 200
    assert answer["outputs"][0]["shape"] == [300, 3]
    async with pod.session.get(f"{pod.cluster_url}/healthz", **secure) as reply:
        assert reply.status == 200
    for url in (pod.url, pod.cluster_url):
        with pytest.raises(aiohttp.ClientError):
            await pod.session.get(url.replace("https", "http") + "/healthz")


async def test_a_renewed_certificate_is_served_to_new_connections_only(
    start: Any, tmp_path: Path
) -> None:
    authority = Authority.make()
    first = authority.issue(tmp_path / "tls", NAME)
    certificate = ServerCertificate(tmp_path / "tls")
    pod = await start(tls=certificate.context)
    watching = asyncio.create_task(watch_certificate(certificate, 0.01))
    host, port = pod.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=_any())
    assert serial(writer) == first

    second = authority.issue(tmp_path / "tls", NAME)
    await wait_for_serial(host, int(port), second)
    (tmp_path / "tls" / KEY_FILE).write_text("broken")
    await asyncio.sleep(0.1)
    await wait_for_serial(host, int(port), second)

    writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await close(writer)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_no_handshake_is_lost_while_certificates_are_renewed(tmp_path: Path) -> None:
    authority, folder, renewed = Authority.make(), tmp_path / "tls", asyncio.Event()
    authority.issue(folder, NAME)
    certificate = ServerCertificate(folder)

    accepted = set[asyncio.Task[None]]()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.add(asyncio.create_task(close(writer)))

    async def connect() -> None:
        while not renewed.is_set():
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=_any())
            await close(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=certificate.context)
    port = server.sockets[0].getsockname()[1]
    watching = asyncio.create_task(watch_certificate(certificate, 0.005))
    async with server, asyncio.TaskGroup() as clients:
        for _ in range(8):
            clients.create_task(connect())
        for _ in range(40):
            authority.issue(folder, NAME)
            await asyncio.sleep(0.01)
        renewed.set()
    watching.cancel()
    await asyncio.gather(*accepted)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until its transport is closed too; a later test would report an open one."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _any() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def serial(writer: asyncio.StreamWriter) -> int:
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(der).serial_number


async def wait_for_serial(host: str, port: int, wanted: int) -> None:
    async with asyncio.timeout(60):
        while True:
            _, writer = await asyncio.open_connection(host, port, ssl=_any())
            present = serial(writer)
            writer.close()
            if present == wanted:
                return
            await asyncio.sleep(0.02)
