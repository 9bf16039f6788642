"""One-shot pods with API keys: the caller's key caps the priority in a body, and names the tenant."""

import json
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from penstock_api.api_keys import ApiKeyRing
from penstock_runtime.engine.messages import Submit
from penstock_runtime.request import Request
from penstock_runtime.serving.batch.client import BatchPod
from tests.unit.runtime.conftest import Start, call
from tests.unit.runtime.protocols.open_inference.test_texts import root, serve, short_start

__all__ = ["root", "short_start"]

BEARER = {"Authorization": "Bearer secret-of-a"}
BEST = 3


def ask_for_keys(pod: BatchPod, folder: Path) -> None:
    path = folder / "keys.json"
    key = {"key": "secret-of-a", "tenant": "a", "bestPriority": BEST}
    path.write_text(json.dumps({"keys": [key]}))
    pod.callers._ring = ApiKeyRing(path)
    pod.callers._ring.reload()


def watched(pod: BatchPod, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return the requests that will reach the engine."""
    seen: list[Request] = []
    send = pod.admission._send

    def note(message: Any) -> None:
        if isinstance(message, Submit):
            seen.extend(message.requests)
        send(message)

    monkeypatch.setattr(pod.admission, "_send", note)
    return seen


@pytest.mark.parametrize(("requested", "granted"), [(1, BEST), (0, BEST), (7, 7)])
async def test_an_inference_gets_no_better_class_than_its_key_grants(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requested: int, granted: int
) -> None:
    running = await start(api_keys_file=tmp_path / "keys.json")
    ask_for_keys(running.pod, tmp_path)
    seen = watched(running.pod, monkeypatch)
    reply = await running.infer(call(parameters={"priority": requested}), headers=BEARER)
    assert reply.status == 200
    assert reply.headers["X-Penstock-Tenant"] == "a"
    assert [(request.priority, request.tenant) for request in seen] == [(granted, "a")]
    refused = await running.infer(call())
    assert refused.status == 401
    assert "API key" in (await refused.json())["error"], "a text, as KServe v2 has it"
    assert "X-Penstock-Tenant" not in refused.headers


@pytest.mark.parametrize("name", ["X-Penstock-Tenant", "X-Penstock-Priority"])
async def test_a_trusted_header_that_a_proxy_repeats_is_rejected(start: Start, name: str) -> None:
    """A proxy that adds its header after the client's would let the client choose the first one."""
    running = await start(trusted_proxies=(ip_network("127.0.0.0/8"),))
    url = f"{running.url}/v2/models/halves/infer"
    twice = [(name, "1"), (name, "9")]
    async with running.session.post(url, json=call(), headers=twice) as reply:
        said = (await reply.json())["error"]
        assert (reply.status, name in said) == (400, True)
        assert "'1' and '9': send it once" in said
    async with running.session.post(url, json=call(), headers=twice[1:]) as reply:
        assert reply.status == 200
    untrusted = await start(trusted_proxies=(ip_network("10.0.0.0/8"),))
    url = f"{untrusted.url}/v2/models/halves/infer"
    async with untrusted.session.post(url, json=call(), headers=twice) as reply:
        assert reply.status == 200


async def test_embeddings_get_no_better_class_than_their_key_grants(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = await serve(
        root, "Embedding", tmp_path, fast_path=True, api_keys_file=tmp_path / "keys.json"
    )
    try:
        ask_for_keys(texts.pod, tmp_path)
        seen = watched(texts.pod, monkeypatch)
        for requested in (1, 7):
            status, _ = await texts.post(
                "/v1/embeddings", {"input": "w1", "priority": requested}, headers=BEARER
            )
            assert status == 200
        assert [(request.priority, request.tenant) for request in seen] == [(BEST, "a"), (7, "a")]
    finally:
        await texts.close()
