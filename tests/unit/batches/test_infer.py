"""Asynchronous infer requests: submit, poll, cancel and webhook, with a scripted pool behind the service."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from penstock_api import names
from penstock_batches.http import infer
from penstock_batches.records import Status
from penstock_batches.work import webhooks
from tests.support.batches.receiver import receiver
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import Served, api_only, running, served, settings

Reply = tuple[int, Any, dict[str, str]]


def body(name: str = "one") -> bytes:
    """An infer request over several lines of JSON, as clients may write it."""
    tensor = {"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [1.5, -2]}
    parameters = {"binary_data_output": False, "priority": 1}
    content = {"id": name, "inputs": [tensor], "parameters": parameters}
    return json.dumps(content, indent=1).encode()


async def call(service: Served, method: str, path: str, **more: Any) -> Reply:
    """Send a request, and return status, JSON and headers."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, service.url + path, **more) as reply,
    ):
        text = await reply.read()
        return reply.status, json.loads(text) if text else None, dict(reply.headers)


async def submit(
    service: Served, headers: dict[str, str] | None = None, data: bytes | None = None
) -> str:
    """Submit a request, and return its location."""
    status, shown, got = await call(
        service, "POST", "/v2/models/demo/infer", data=data or body(), headers=headers
    )
    assert (status, shown["status"]) == (202, "validating")
    assert got["Location"] == f"/v2/models/demo/infer/{shown['id']}"
    return got["Location"]


async def result(service: Served, location: str, **more: Any) -> Reply:
    """Poll until a request has ended."""
    end = time.monotonic() + 30
    while (reply := await call(service, "GET", location, **more))[0] == 202:
        assert reply[2]["Retry-After"] == "1"
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    return reply


async def test_a_request_is_answered_once_and_no_list_shows_it(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    async with running(tmp_path, **store_settings) as (service, pool, client):
        location = await submit(service)
        status, shown, headers = await result(service, location)
        assert (status, shown) == (200, {"text": "one"})
        assert headers["Content-Type"].startswith("application/json")
        priority = {"parameters": {"binary_data_output": False, "priority": names.BATCH_PRIORITY}}
        assert pool.bodies == [json.loads(body()) | priority]
        assert pool.headers[0]["X-Penstock-Priority"] == str(names.BATCH_PRIORITY)
        assert [each async for each in client.batches.list()] == []
        assert [each async for each in client.files.list()] == []
        request_id = location.rsplit("/", 1)[1]
        for path in (
            f"/v1/batches/{request_id}",
            f"/v1/files/file-{request_id}",
            f"/v1/files/file-{request_id}-output/content",
        ):
            assert (await call(service, "GET", path))[0] == 404
        assert (await call(service, "GET", f"/v2/models/other/infer/{request_id}"))[0] == 404
        assert (await call(service, "DELETE", location))[0] == 409


async def test_a_refusal_of_the_pool_is_the_answer(tmp_path: Path) -> None:
    def refused(_name: str, _times: int) -> Scripted:
        return Scripted(status=422)

    async with running(tmp_path, refused) as (service, _, _client):
        status, shown, _ = await result(service, await submit(service))
        assert (status, shown) == (422, {"error": {"message": "no"}})


async def test_a_cancelled_request_is_gone_and_a_late_one_expires(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    def slow(_name: str, _times: int) -> Scripted:
        return Scripted(seconds=60)

    async with running(tmp_path, slow, **store_settings) as (service, _, _client):
        location = await submit(service)
        late = await submit(service, {infer.HEADER_WINDOW: "1s"})
        assert (await call(service, "DELETE", location))[0] == 204
        assert (await result(service, location))[:2] == (
            410,
            {"error": "The request was cancelled."},
        )
        assert (await call(service, "DELETE", location))[0] == 204
        status, shown, _ = await result(service, late)
        assert status == 504
        assert "completion window" in shown["error"]


async def test_bad_requests_name_the_field_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infer, "MAX_LINE_BYTES", infer.OVERHEAD_BYTES + 1000)
    async with api_only(settings(tmp_path, webhook_hosts="hooks.example")) as service:

        async def refused(
            status: int,
            text: str,
            content: bytes = b"{}",
            model: str = "demo",
            headers: dict[str, str] | None = None,
        ) -> None:
            path = f"/v2/models/{model}/infer"
            got, shown, _ = await call(service, "POST", path, data=content, headers=headers)
            assert got == status
            assert text in shown["error"]

        await refused(400, "JSON object", b"[1]")
        await refused(400, "JSON object", b'{"id": "\xff"}')
        await refused(404, "'other' is not served", model="other")
        await refused(400, "1s to 30d", headers={infer.HEADER_WINDOW: "soon"})
        await refused(415, "not in binary", headers={infer.BINARY: "10"})
        await refused(413, "exceeds", b"{}" * 600)
        for url in (
            "http://10.0.0.1/",
            "ftp://hooks.example/",
            "http://hooks.example@10.0.0.1/",
            "http://u@hooks.example/",
            "http://hooks.example:8080/",
            "http://[hooks.example/",
        ):
            await refused(400, infer.HEADER_WEBHOOK, headers={infer.HEADER_WEBHOOK: url})
        monkeypatch.setattr(infer, "MAX_ACTIVE", 1)
        await submit(service, {infer.HEADER_WEBHOOK: "https://Hooks.example/x"})
        await refused(429, "have not ended")
        store = service.service.store
        (waiting,) = await store.active()
        await store.write(replace(waiting, status=Status.COMPLETED))
        await refused(429, "webhooks were not answered")


async def test_a_tenant_sees_no_requests_of_another(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    tenants = [{"key": f"key-of-{name}", "tenant": name} for name in ("search", "chat")]
    keys.write_text(json.dumps({"keys": tenants}))
    search, chat = ({"X-Api-Key": str(each["key"])} for each in tenants)
    async with api_only(settings(tmp_path, api_keys_file=str(keys))) as service:
        assert service.service.ring is not None
        service.service.ring.reload()
        assert (await call(service, "POST", "/v2/models/demo/infer", data=b"{}"))[0] == 401
        location = await submit(service, search)
        assert (await call(service, "GET", location, headers=search))[0] == 202
        for method in ("GET", "DELETE"):
            assert (await call(service, method, location, headers=chat))[0] == 404


async def test_a_webhook_is_repeated_until_it_is_answered_and_signed(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    (tmp_path / "secret").write_text(
        "whsec_" + base64.encodebytes(b"a secret").decode().replace("c2Vj", "c2Vj\n")
    )
    async with receiver(500, 302) as hook:
        more = {
            **store_settings,
            "webhook_hosts": hook.host,
            "webhook_secret_file": str(tmp_path / "secret"),
        }
        async with running(tmp_path, **more) as (service, _, _client):
            location = await submit(service, {infer.HEADER_WEBHOOK: hook.url})
            await hook.until(3)
            headers, content = hook.got[2]
            request_id = location.rsplit("/", 1)[1]
            assert json.loads(content) == {
                "type": "infer.completed",
                "data": {"id": request_id, "location": location},
            }
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + content
            expected = base64.b64encode(hmac.digest(b"a secret", signed, hashlib.sha256)).decode()
            assert headers["webhook-signature"] == f"v1,{expected}"
            assert (await call(service, "GET", location))[0] == 200
            await asyncio.sleep(1.5)  # three looks of the supervisor
            assert len(hook.got) == 3
            assert await service.service.store.active() == []


async def test_a_webhook_that_was_due_at_a_stop_is_called_after_it(
    tmp_path: Path, store_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "CLAIM_SECONDS", 1.0)
    async with receiver(*[503] * 2) as hook:
        more = {**store_settings, "webhook_hosts": hook.host}
        async with running(tmp_path, **more) as (service, _, _client):
            await submit(service, {infer.HEADER_WEBHOOK: hook.url})
            await hook.until(1)
        calls = len(hook.got)
        async with served(settings(tmp_path, **more)):
            await hook.until(calls + 1)


async def test_the_record_of_a_request_goes_with_its_files(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    async with running(tmp_path, **store_settings) as (service, _, _client):
        location = await submit(service)
        assert (await result(service, location))[0] == 200
        store = service.service.store
        batch_id = location.rsplit("/", 1)[1]
        await store.delete_batch("infer_unknown")
        await store.delete_batch(batch_id)
        assert await store.batch(batch_id) is None
        assert (await call(service, "GET", location))[0] == 404
