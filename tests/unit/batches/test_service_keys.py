"""The service while API keys are unread, replaced, gone or above their rate."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock_api import names
from penstock_batches.dispatch import gate, outcome, sender
from penstock_batches.http import caller
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import (
    Served,
    ended,
    jsonl,
    lines_of,
    request_line,
    running,
    submitted,
    until,
)

SEARCH = {"key": "key-of-search", "tenant": "search"}
CHAT = {"key": "key-of-chat", "tenant": "chat"}
LINES = [f"line-{number}" for number in range(6)]
CONTENT = jsonl(list(map(request_line, LINES)))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "RELOAD_SECONDS", 0.05)
    monkeypatch.setattr(gate, "KEYLESS_PAUSE_SECONDS", 0.25)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    write(path, SEARCH, CHAT)
    return path


def write(path: Path, *keys: dict[str, Any]) -> None:
    path.write_text(json.dumps({"keys": keys}))


def has_key(service: Served, key: str) -> bool:
    ring = service.service.ring
    return ring is not None and ring.find(key) is not None


def stuck(_prompt: str, _times: int) -> Scripted:
    return Scripted(seconds=3600)


async def custom_ids(client: Any, file_id: str | None) -> list[str]:
    return [line["custom_id"] for line in await lines_of(client, file_id)]


async def test_no_line_is_dispatched_before_the_keys_are_read(tmp_path: Path, keys: Path) -> None:
    async with (
        running(tmp_path, stuck, api_keys_file=str(keys)) as (service, pool, _),
        service.client(SEARCH["key"]) as client,
    ):
        await until(lambda: service.service.ready)
        batch_id = await submitted(client, CONTENT)
        await until(lambda: bool(pool.sent))
    write(keys, {"tenant": "search"})  # invalid
    async with (
        running(tmp_path, api_keys_file=str(keys)) as (service, pool, _),
        service.client(SEARCH["key"]) as client,
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: bool(service.service.supervisor.active))
        async with session.get(f"{service.status_url}/readyz") as reply:
            assert reply.status == 503
        assert not service.service.recorder.recorded
        assert not pool.sent
        write(keys, SEARCH)
        await until(lambda: service.service.ready)
        batch = await ended(client, batch_id)
        assert batch.error_file_id is None
        assert await custom_ids(client, batch.output_file_id) == LINES


async def test_a_line_waits_for_a_pod_that_does_not_have_its_key_yet(
    tmp_path: Path, keys: Path
) -> None:
    script = lambda _prompt, times: Scripted((401, 403, 200)[min(times, 2)])  # noqa: E731
    async with (
        running(tmp_path, script, api_keys_file=str(keys)) as (service, _, _client),
        service.client(SEARCH["key"]) as client,
    ):
        await until(lambda: service.service.ready)
        batch = await ended(client, await submitted(client, CONTENT))
        assert batch.error_file_id is None
        assert await custom_ids(client, batch.output_file_id) == LINES


async def test_a_line_waits_for_another_key_of_its_tenant(tmp_path: Path, keys: Path) -> None:
    new = {"key": "new-key-of-search", "tenant": "search"}
    script = lambda _prompt, times: Scripted(200 if times else 503, retry_after="1")  # noqa: E731
    async with running(tmp_path, script, api_keys_file=str(keys)) as (service, pool, _):
        await until(lambda: service.service.ready)
        async with service.client(SEARCH["key"]) as client:
            batch_id = await submitted(client, CONTENT)
        await until(lambda: bool(pool.sent))
        write(keys, CHAT)
        paused = service.service.dispatcher.gates["demo"].tenant("search").window
        await until(lambda: paused.paused_until > 0)
        assert not service.service.recorder.recorded
        write(keys, new)
        async with service.client(new["key"]) as client:
            await until(lambda: has_key(service, new["key"]))
            batch = await ended(client, batch_id)
            assert await custom_ids(client, batch.output_file_id) == LINES


async def test_lines_of_a_tenant_whose_keys_stay_away_are_answered_with_that(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "KEYLESS_SECONDS", 0.5)
    script = lambda _prompt, _times: Scripted(503, retry_after="1")  # noqa: E731
    async with running(tmp_path, script, api_keys_file=str(keys)) as (service, pool, _):
        await until(lambda: service.service.ready)
        async with service.client(SEARCH["key"]) as client:
            batch_id = await submitted(client, CONTENT)
        await until(lambda: bool(pool.sent))
        write(keys, {"key": "later-of-search", "tenant": "chat"})
        await until(lambda: service.service.recorder.recorded["Error"] == len(LINES))
        write(keys, SEARCH)
        async with service.client(SEARCH["key"]) as client:
            await until(lambda: has_key(service, SEARCH["key"]))
            batch = await ended(client, batch_id)
            errors = await lines_of(client, batch.error_file_id)
            assert {each["error"]["code"] for each in errors} == {"invalid_api_key"}


async def test_the_rate_of_one_tenants_key_stops_no_other_tenant(
    tmp_path: Path, keys: Path
) -> None:
    write(keys, SEARCH | {"requestsPerMinute": 1}, CHAT)

    def script(prompt: str, _times: int) -> Scripted:
        return Scripted(429, retry_after="600") if prompt.startswith("limited") else Scripted()

    limited = jsonl([request_line(f"limited-{number}") for number in range(40)])
    async with (
        running(tmp_path, script, api_keys_file=str(keys), max_in_flight=4) as (service, pool, _),
        service.client(SEARCH["key"]) as search,
        service.client(CHAT["key"]) as chat,
    ):
        await until(lambda: service.service.ready)
        await submitted(search, limited, "1h")
        await until(lambda: service.service.sender.attempts["429"] >= 1)
        batch = await ended(chat, await submitted(chat, CONTENT), 10)
        assert await custom_ids(chat, batch.output_file_id) == LINES
        assert service.service.dispatcher.gates["demo"].window.rejections == 0
        assert pool.most_in_flight <= 4


async def test_lines_that_kill_engines_stop_no_other_tenant(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "pause_seconds", lambda _times, _share: 600.0)
    died = Scripted(503, retry_after="0", error=f"{names.ENGINE_DIED}: it is stuck")
    script = lambda prompt, _times: died if prompt.startswith("cause") else Scripted()  # noqa: E731
    causes = jsonl([request_line(f"cause-{number}") for number in range(40)])
    async with (
        running(tmp_path, script, api_keys_file=str(keys), max_in_flight=4) as (service, pool, _),
        service.client(SEARCH["key"]) as search,
        service.client(CHAT["key"]) as chat,
    ):
        await until(lambda: service.service.ready)
        await submitted(search, causes, "1h")
        await until(lambda: pool.sent.total() >= 4)
        batch = await ended(chat, await submitted(chat, CONTENT), 10)
        assert await custom_ids(chat, batch.output_file_id) == LINES
