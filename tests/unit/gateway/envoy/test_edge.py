"""What Envoy rejects before a pod sees it, and the headers that pods get."""

import asyncio
from typing import Any

import pytest

from penstock_api import names
from penstock_api.body_limits import BodyLimits
from tests.support.gateway.api_server import service
from tests.support.gateway.stack import Stack
from tests.unit.gateway.envoy.conftest import RunningGateway

LIMIT = 65536
HEAD = "POST /infer HTTP/1.1\r\nHost: demo\r\n"
MALFORMED = {
    "length and chunks": f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    "two lengths": f"{HEAD}Content-Length: 0\r\nContent-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    "space before the colon": f"{HEAD}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": f"{HEAD}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": f"{HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "negative length": f"{HEAD}Content-Length: -1\r\n\r\n",
    "length with a sign": f"{HEAD}Content-Length: +4\r\n\r\nabcd",
    "underscore": f"{HEAD}Content_Length: 4\r\nContent-Length: 0\r\n\r\n",
    "NUL": f"{HEAD}X-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "no colon": f"{HEAD}X-A\r\nContent-Length: 0\r\n\r\n",
    "bad chunk": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
    "no host": "POST /infer HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "headers too large": f"{HEAD}X-A: {'a' * 40_000}\r\n\r\n",
    "too many headers": HEAD + "".join(f"X-{n}: 1\r\n" for n in range(120)) + "\r\n",
    "not HTTP": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}  # fmt: skip


async def raw(stack: Stack, text: str) -> bytes:
    """Send bytes on a connection, and return all that arrives until it is closed or silent."""
    reader, writer = await asyncio.open_connection(stack.host, 10001)
    writer.write(text.encode("latin-1"))
    answer = b""
    try:
        async with asyncio.timeout(30):
            answer = await reader.read(4096)
    except (TimeoutError, ConnectionResetError):
        pass
    finally:
        writer.close()
    return answer


async def seen(stack: Stack) -> dict[str, int]:
    """Return the requests that reached the pod, by path."""
    return dict(await stack.pod_reply("pod-0", "/seen"))


async def test_malformed_requests_end_at_the_gateway(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        answers = {name: await raw(stack, text) for name, text in MALFORMED.items()}
        passed = {name: answer for name, answer in answers.items() if not _is_refusal(answer)}
        assert passed == {}
        assert await seen(stack) == {}
        assert b" 200 " in await raw(stack, f"{HEAD}Content-Length: 0\r\n\r\n")


async def test_a_folded_header_reaches_a_pod_as_one_line(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        answer = await raw(stack, "GET / HTTP/1.1\r\nHost: a\r\nX-A: a\r\n x-b: c\r\n\r\n")
        assert b'"x-a": "a' in answer
        assert b'"x-b"' not in answer


def _is_refusal(answer: bytes) -> bool:
    return answer == b"" or answer.split(b" ", 2)[1:2] in ([b"400"], [b"431"], [b"501"], [b"426"])


async def test_bodies_over_the_limit_end_at_the_gateway(gateway: RunningGateway) -> None:
    async def chunks() -> Any:
        for _ in range(3):
            yield b"x" * (LIMIT // 2)

    async with gateway(PENSTOCK_MAX_BODY_BYTES=str(LIMIT)) as stack:
        for body in (b"x" * (LIMIT + 1), chunks()):
            async with stack.client.post(stack.url("/infer"), data=body) as answer:
                assert answer.status == 413
        assert await seen(stack) == {}
        async with stack.client.post(stack.url("/infer"), data=b"x" * LIMIT) as answer:
            assert (await answer.json())["bytes"] == LIMIT


async def test_pods_get_the_clients_address_and_no_header_of_envoys(
    gateway: RunningGateway,
) -> None:
    claimed = {
        "x-envoy-upstream-rq-timeout-ms": "1",
        "x-envoy-max-retries": "50",
        "X-Envoy-Internal": "true",
        "X-Forwarded-For": "198.51.100.7",
        "X-Request-Timeout-Ms": "5000",
        "X-Penstock-Priority": "3",
        "X-Request-Id": "mine",
    }
    async with gateway() as stack:
        url = stack.url("/v2/models//org%2Fname/../config")
        async with stack.client.get(url, headers=claimed) as answer:
            assert not [name for name in answer.headers if name.lower().startswith("x-envoy")]
            arrived = await answer.json()
        headers = arrived["headers"]
        assert [name for name in headers if name.startswith("x-envoy")] == []
        assert headers["x-forwarded-for"].startswith("198.51.100.7,")
        assert headers["x-request-timeout-ms"] == "5000"
        assert headers["x-penstock-priority"] == "3"
        assert headers["x-request-id"] == "mine"
        assert arrived["path"] == "/v2/models//config"
        claimed.pop("X-Forwarded-For")
        async with stack.client.post(stack.url("/infer?ms=500"), headers=claimed) as answer:
            assert answer.status == 200  # the deadline of 1 ms in Envoy's header does not count


async def test_a_body_that_does_not_arrive_is_a_408_and_no_pod_waits_for_it(
    gateway: RunningGateway,
) -> None:
    async with gateway(PENSTOCK_BODY_TIMEOUT_SECONDS="1") as stack:
        answer = await raw(stack, f"{HEAD}Content-Length: 10\r\n\r\nabc")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert await seen(stack) == {}


async def test_connections_of_a_pool_are_bounded(gateway: RunningGateway) -> None:
    async with gateway(PENSTOCK_MAX_POOL_CONNECTIONS="2") as stack:
        kept = [await asyncio.open_connection(stack.host, 10001) for _ in range(2)]
        for _, writer in kept:
            writer.write(f"{HEAD}Content-Length: 0\r\n\r\n".encode())
        for reader, _ in kept:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await raw(stack, f"{HEAD}Content-Length: 0\r\n\r\n") == b""
        for _, writer in kept:
            writer.close()


async def test_upgrades_are_refused(gateway: RunningGateway) -> None:
    async with gateway() as stack:
        upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        assert (await raw(stack, upgrade)).startswith(b"HTTP/1.1 403 ")
        assert await seen(stack) == {}


@pytest.mark.parametrize("status", [500, 503])
async def test_a_client_that_provokes_errors_ejects_no_pod(
    gateway: RunningGateway, status: int
) -> None:
    async with gateway(pods=2) as stack:
        for _ in range(20):
            async with stack.client.post(stack.url(f"/status/{status}")) as answer:
                assert answer.status == status
        ejected = "envoy_cluster_outlier_detection_ejections_active"
        assert await stack.envoy_metric(ejected, pool="demo") == 0


async def test_the_limit_of_a_body_is_the_pools_own_if_it_sets_one(gateway: RunningGateway) -> None:
    own = service("demo", 10001)
    own["metadata"]["annotations"][names.ANNOTATION_GATEWAY_BODY] = BodyLimits(
        3 * LIMIT
    ).as_annotation()
    async with gateway(PENSTOCK_MAX_BODY_BYTES=str(LIMIT)) as stack:
        await stack.api.put("services", own)
        async with asyncio.timeout(30):
            while await status(stack, 2 * LIMIT) == 413:  # noqa: ASYNC110  until the listener is changed
                await asyncio.sleep(0.05)
        assert await status(stack, 2 * LIMIT) == 200
        assert await status(stack, 4 * LIMIT) == 413


async def status(stack: Stack, size: int) -> int:
    """Return the status of the answer to a body of this size."""
    async with stack.client.post(stack.url("/infer"), data=b"x" * size) as answer:
        return answer.status
