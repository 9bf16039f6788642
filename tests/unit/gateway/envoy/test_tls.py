"""Pools that serve TLS: Envoy serves the pool's certificate, calls the pods by TLS, and follows a renewal."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.support.gateway.api_server import pod, service
from tests.support.gateway.stack import Stack, kill, stack
from tests.unit.operator.net.certificates import Authority

NAME = "demo.test.svc"


@dataclass(frozen=True, slots=True)
class Secured:
    """A gateway of a pool with TLS, and the authority of its certificate."""

    stack: Stack
    authority: Authority
    trust: ssl.SSLContext

    @property
    def folder(self) -> Path:
        """The folder of the pool's certificate."""
        return self.stack.folder / "tls" / "demo"

    async def connect(
        self, *alpn: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, ssl.SSLObject]:
        """Connect as a client of the pool."""
        context = ssl.create_default_context(cadata=self.authority.pem())
        context.set_alpn_protocols(list(alpn))
        reader, writer = await asyncio.open_connection(
            self.stack.host, 10001, ssl=context, server_hostname=NAME
        )
        return reader, writer, writer.get_extra_info("ssl_object")

    async def serial(self) -> int:
        """Return the serial number of the certificate that a new connection gets."""
        _, writer, tls = await self.connect("http/1.1")
        certificate = tls.getpeercert()
        writer.close()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


@asynccontextmanager
async def secured(
    *, pods_by: Authority | None = None, verified: bool = True
) -> AsyncIterator[Secured]:
    """Run a gateway and a pod with TLS; the pod's certificate is by another authority if one is given."""
    authority = Authority.make()
    async with stack() as gateway:
        folder = gateway.folder / "tls" / "demo"
        folder.parent.mkdir()
        authority.issue(folder, NAME)
        if verified:
            (folder / "ca.crt").write_text(authority.pem())
        (pods_by or authority).issue(gateway.folder / "pods", NAME)
        await gateway.api.put("services", service("demo", 10001, scheme="https"))
        starting = gateway.start_pod("pod-0", certificate=str(gateway.folder / "pods"))
        await asyncio.gather(gateway.start_controller(), gateway.start_envoy(), starting)
        await gateway.until_ready()
        await gateway.until_endpoints(1)
        trust = ssl.create_default_context(cadata=authority.pem())
        yield Secured(gateway, authority, trust)


async def post(gateway: Secured) -> tuple[int, str]:
    """Send a request; return the status and the body."""
    url = gateway.stack.url("/infer").replace("http", "https", 1)
    async with gateway.stack.client.post(
        url, data=b"abc", ssl=gateway.trust, server_hostname=NAME
    ) as answer:
        return answer.status, await answer.text()


async def test_clients_and_pods_use_the_pools_certificate() -> None:
    async with secured() as gateway:
        assert await post(gateway) == (200, '{"pod": "pod-0", "bytes": 3}')
        assert set((await gateway.stack.status())["pools"]["demo"]["resources"].values()) == {
            "Accepted"
        }
        assert "Secret" in (await gateway.stack.status())["pools"]["demo"]["resources"]
        with pytest.raises(aiohttp.ClientError):  # by plain HTTP
            await gateway.stack.client.get(gateway.stack.url("/headers"))
        old = ssl.create_default_context(cadata=gateway.authority.pem())
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(gateway.stack.host, 10001, ssl=old, server_hostname=NAME)


async def test_http_2_is_offered_by_alpn() -> None:
    async with secured() as gateway:
        authority = gateway.stack.folder / "authority.pem"
        authority.write_text(gateway.authority.pem())
        target = ("--connect-to", f"{NAME}:8000:{gateway.stack.host}:10001")
        words = ("curl", "--silent", "--show-error", "--write-out", "%{http_version}")
        sent = (
            *words,
            *target,
            "--cacert",
            str(authority),
            "--data",
            "abc",
            f"https://{NAME}:8000/infer",
        )
        done = await asyncio.to_thread(
            subprocess.run, sent, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == '{"pod": "pod-0", "bytes": 3}2'


async def test_a_renewed_certificate_serves_new_connections_and_ends_none() -> None:
    async with secured() as gateway:
        reader, writer, _ = await gateway.connect("http/1.1")
        first = await gateway.serial()
        request = b"POST /infer HTTP/1.1\r\nHost: demo\r\nContent-Length: 2\r\n\r\n{}"
        second = gateway.authority.issue(gateway.folder, NAME)
        while await gateway.serial() == first:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.1)
        assert await gateway.serial() == second
        writer.write(request)  # on the connection of before
        assert b"200 OK" in await reader.readuntil(b"\r\n")
        writer.close()
        await gateway.stack.until_endpoints(1)


async def test_a_broken_renewal_leaves_the_former_certificate_and_is_visible() -> None:
    async with secured() as gateway:
        first = await gateway.serial()
        (gateway.folder / "tls.key").write_text("no key")
        status = await gateway.stack.until_status(
            lambda status: bool(status["pools"]["demo"]["certificateProblem"])
        )
        assert "tls.key" in status["pools"]["demo"]["certificateProblem"]
        assert await gateway.serial() == first
        assert (await post(gateway))[0] == 200


async def test_a_new_controller_that_has_no_valid_certificate_leaves_the_one_in_force() -> None:
    async with secured() as gateway:
        stack, first = gateway.stack, await gateway.serial()
        (gateway.folder / "tls.key").write_text("no key")
        await kill(stack.controller)
        await stack.start_controller()
        await stack.until_status(
            lambda status: status["ready"] and "tls.key" in status["unroutableServices"]["demo"]
        )
        assert await gateway.serial() == first
        await stack.start_pod("pod-1", certificate=str(stack.folder / "pods"))
        await stack.api.put("pods", pod("pod-0", "demo", stack.address("pod-0"), deleting=True))
        while await post(gateway) != (200, '{"pod": "pod-1", "bytes": 3}'):  # noqa: ASYNC110  another process
            await asyncio.sleep(0.1)
        renewed = gateway.authority.issue(gateway.folder, NAME)
        await stack.until_endpoints(1)
        assert await gateway.serial() == renewed


@pytest.mark.parametrize("verified", [True, False], ids=["with ca.crt", "without"])
async def test_pods_are_verified_by_the_secrets_authority_if_it_has_one(*, verified: bool) -> None:
    async with secured(pods_by=Authority.make("stranger"), verified=verified) as gateway:
        status, text = await post(gateway)
        assert status == (503 if verified else 200), text


async def test_a_pool_waits_for_its_certificate_and_turns_to_tls_without_a_restart() -> None:
    async with stack() as gateway:
        await gateway.api.put("services", service("demo", 10001))
        await asyncio.gather(
            gateway.start_controller(), gateway.start_envoy(), gateway.start_pod("pod-0")
        )
        await gateway.until_endpoints(1)
        async with gateway.client.post(gateway.url("/infer")) as answer:
            assert answer.status == 200
        authority = Authority.make()
        (gateway.folder / "tls").mkdir()
        authority.issue(gateway.folder / "tls" / "demo", NAME)
        authority.issue(gateway.folder / "pods", NAME)
        trust = ssl.create_default_context(cadata=authority.pem())
        secure = Secured(gateway, authority, trust)
        await gateway.api.put("services", service("demo", 10001, scheme="https"))
        await gateway.until_status(lambda status: "Secret" in status["pools"]["demo"]["resources"])
        await gateway.until_endpoints(1)
        assert await post(secure) == (200, '{"pod": "pod-0", "bytes": 3}')  # a plain pod still
        await gateway.start_pod("pod-1", certificate=str(gateway.folder / "pods"))
        await gateway.until_endpoints(2)
        leaving = pod("pod-0", "demo", gateway.address("pod-0"), deleting=True)
        await gateway.api.put("pods", leaving)
        await gateway.until_endpoints(1)
        assert await post(secure) == (200, '{"pod": "pod-1", "bytes": 3}')
