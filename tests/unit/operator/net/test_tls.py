"""TLS between operator and pods: trusted authorities, names, and renewals without a restart."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from penstock_api import names
from penstock_api.certificates import (
    CERTIFICATE_FILE,
    KEY_FILE,
    CertificateUnusable,
    ServerCertificate,
)
from penstock_operator.errors import OperatorConfigError
from penstock_operator.net.http import CallFailed, HttpCall, call, new_session, pod_url
from penstock_operator.net.tls import PodTrust
from tests.unit.operator.net.certificates import Authority
from tests.unit.operator.observe.signals.exporter import free_address

NAME = "chat.team-a.svc"


@asynccontextmanager
async def pod(context: ssl.SSLContext) -> AsyncIterator[str]:
    """Yield the address of a pod that serves over TLS."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    address = free_address()
    await web.TCPSite(runner, address, names.CLUSTER_PORT, ssl_context=context).start()
    yield address
    await runner.cleanup()


async def request(
    address: str, trust: ssl.SSLContext | None, name: str = NAME
) -> tuple[int, bytes]:
    url = pod_url(address, names.CLUSTER_PORT, "/", name)
    async with new_session(trust) as session:
        return await call(session, HttpCall("GET", url, 100, tls_name=name))


@pytest.fixture
def authority() -> Authority:
    return Authority.make()


@pytest.fixture
def authorities(tmp_path: Path, authority: Authority) -> Path:
    file = tmp_path / "ca.crt"
    file.write_text(authority.pem())
    return file


async def test_a_pods_certificate_is_verified_by_authority_and_service_name(
    tmp_path: Path, authority: Authority, authorities: Path
) -> None:
    authority.issue(tmp_path / "tls", NAME)
    trust = PodTrust(authorities).context
    async with pod(ServerCertificate(tmp_path / "tls").context) as address:
        assert await request(address, trust) == (200, b"ok")
        for context, name in ((trust, "chat.team-b.svc"), (None, NAME)):
            with pytest.raises(
                CallFailed, match="certificate is for another name, or not signed by a trusted CA"
            ):
                await request(address, context, name)


async def test_a_certificate_of_another_authority_is_rejected(
    tmp_path: Path, authorities: Path
) -> None:
    Authority.make("stranger").issue(tmp_path / "tls", NAME)
    async with pod(ServerCertificate(tmp_path / "tls").context) as address:
        with pytest.raises(CallFailed, match="certificate"):
            await request(address, PodTrust(authorities).context)
        assert (await request(address, PodTrust(None).context))[0] == 200, (
            "certificates are not verified"
        )


async def test_a_renewed_certificate_and_a_new_authority_count_without_a_restart(
    tmp_path: Path, authority: Authority, authorities: Path
) -> None:
    authority.issue(tmp_path / "tls", NAME)
    certificate, trust = ServerCertificate(tmp_path / "tls"), PodTrust(authorities)
    successor = Authority.make("successor")
    async with pod(certificate.context) as address:
        assert certificate.refresh() is False
        successor.issue(tmp_path / "tls", NAME)
        assert certificate.refresh() is True
        with pytest.raises(CallFailed, match="certificate"):
            await request(address, trust.context)
        write_authorities(authorities, authority, successor)
        trust.refresh()
        assert await request(address, trust.context) == (200, b"ok")


def write_authorities(file: Path, *authorities: Authority) -> None:
    file.write_text("".join(authority.pem() for authority in authorities))


async def test_a_mismatched_pair_leaves_the_loaded_certificate_in_use(
    tmp_path: Path, authority: Authority, authorities: Path
) -> None:
    folder = tmp_path / "tls"
    authority.issue(folder, NAME)
    certificate = ServerCertificate(folder)
    authority.issue(tmp_path / "other", NAME)
    for file in (KEY_FILE, CERTIFICATE_FILE):
        (folder / file).write_bytes((tmp_path / "other" / file).read_bytes())
        if file == KEY_FILE:
            with pytest.raises(CertificateUnusable, match="cannot be used") as caught:
                certificate.refresh()
            assert "PRIVATE" not in str(caught.value)
            async with pod(certificate.context) as address:
                assert (await request(address, PodTrust(authorities).context))[0] == 200
    assert certificate.refresh() is True


@pytest.mark.parametrize("text", ["", "no certificate"])
def test_an_invalid_certificate_is_rejected_with_a_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(CertificateUnusable, match="No such file"):
        ServerCertificate(tmp_path)
    for file in (CERTIFICATE_FILE, KEY_FILE):
        (tmp_path / file).write_text(text)
    with pytest.raises(CertificateUnusable, match="cannot be used"):
        ServerCertificate(tmp_path)


@pytest.mark.parametrize("text", ["", "no certificate", "ü"])
def test_an_invalid_authority_file_is_rejected_and_the_loaded_ones_stay(
    tmp_path: Path, authorities: Path, text: str
) -> None:
    trust = PodTrust(authorities)
    authorities.write_text(text)
    with pytest.raises(OperatorConfigError, match="PENSTOCK_POD_CA_FILE"):
        trust.refresh()
    assert len(trust.context.get_ca_certs()) == 1
    with pytest.raises(OperatorConfigError, match="cannot be read as CA certificates"):
        PodTrust(tmp_path / "absent")
