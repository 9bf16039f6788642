"""The pools of a namespace, from its InferencePools."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from penstock_batches.http.server import listening
from penstock_batches.pools import Pools, urls_by_model
from tests.support.batches.served import settings, until


def pool(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"model": {"source": {}}} | spec}


def test_a_model_is_the_pools_name_unless_the_pool_names_it() -> None:
    items = [
        pool("chat"),
        pool("second", model={"name": "llama"}),
        pool("first", model={"name": "llama"}),
        pool("safe", tls={"secretName": "x"}),
    ]
    assert urls_by_model(json.dumps({"items": items}).encode(), "team-a") == {
        "chat": "http://chat.team-a.svc:8000",
        "llama": "http://first.team-a.svc:8000",
        "safe": "https://safe.team-a.svc:8000",
    }
    with pytest.raises(msgspec.MsgspecError):
        urls_by_model(b"{}", "team-a")


async def test_pools_are_listed_again_and_stay_without_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_batches.pools.LIST_SECONDS", 0.02)
    token = tmp_path / "token"
    token.write_text("secret\n")
    answers = [([], 500), ([pool("chat")], 200), ([pool("chat"), pool("more")], 200)]
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        items, status = answers[min(len(seen), len(answers)) - 1]
        return web.json_response({"items": items}, status=status)

    app = web.Application()
    app.router.add_get("/apis/penstock.dev/v1alpha1/namespaces/team-a/inferencepools", answer)
    async with listening(app, "127.0.0.1", 0) as port:
        server = f"http://127.0.0.1:{port}"
        pools = Pools(settings(tmp_path, pools="", api_server=server, token_file=str(token)))
        assert not pools.listed
        watching = asyncio.create_task(pools.watch())
        await until(lambda: pools.models == ("chat", "more"))
    assert set(seen) == {"Bearer secret"}
    await asyncio.sleep(0.1)
    assert pools.url("more") == "http://more.team-a.svc:8000"
    assert pools.url("none") is None
    watching.cancel()
