"""The service with OpenAI's client in front of it and a scripted pool behind it."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from penstock_api import names
from penstock_batches import requests
from tests.support.batches.redis_server import RedisServer
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import (
    ended,
    jsonl,
    lines_of,
    request_line,
    running,
    submitted,
    until,
)


def custom_ids(lines: list[dict[str, Any]]) -> list[str]:
    return [line["custom_id"] for line in lines]


async def test_a_batch_is_answered_in_order_at_the_priority_of_batch_work(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    asked = [f"line-{number}" for number in range(60)]
    async with running(tmp_path, **store_settings) as (service, pool, client):
        batch_id = await submitted(client, jsonl([request_line(each) for each in asked]))
        batch = await ended(client, batch_id)
        assert batch.status == "completed"
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": 60, "completed": 60, "failed": 0}
        assert (batch.error_file_id, batch.errors, batch.model) == (None, None, "demo")
        output = await lines_of(client, batch.output_file_id)
        assert custom_ids(output) == asked
        assert [line["response"]["body"]["text"] for line in output] == asked
        assert {body["priority"] for body in pool.bodies} == {names.BATCH_PRIORITY}
        assert set(pool.sent.values()) == {1}
        folder = service.service.settings.payload_folder / "answers"
        await until(lambda: not list(folder.iterdir()))
        assert batch.output_file_id is not None
        file = await client.files.retrieve(batch.output_file_id)
        assert (file.purpose, file.filename) == ("batch_output", f"{batch_id}_output.jsonl")


async def test_bad_lines_are_reported_and_the_rest_is_served(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    content = jsonl(
        [
            request_line("a"),
            "{not json",
            "",
            request_line("a"),
            request_line("b", model="other"),
            request_line("c") | {"url": "/v1/none"},
            request_line("d"),
        ]
    )
    async with running(tmp_path, **store_settings) as (_, _pool, client):
        batch = await ended(client, await submitted(client, content))
        assert batch.status == "completed"
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": 6, "completed": 2, "failed": 4}
        assert custom_ids(await lines_of(client, batch.output_file_id)) == ["a", "d"]
        errors = await lines_of(client, batch.error_file_id)
        shown = [
            (each["error"]["line"], each["error"]["code"], each["custom_id"]) for each in errors
        ]
        assert shown == [
            (2, "invalid_json_line", None),
            (4, "duplicate_custom_id", None),
            (5, "model_not_found", "b"),
            (6, "invalid_url", "c"),
        ]
        assert batch.errors is not None
        assert batch.errors.data is not None
        assert [each.line for each in batch.errors.data] == [2, 4, 5, 6]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\n \n", "empty_file"),
        (b"nothing\n", "invalid_json_line"),
        (jsonl([request_line("a", model="none")]), "model_not_found"),
        (jsonl([request_line(str(number)) for number in range(6)]), "too_many_tasks"),
        (jsonl([request_line("a")]) + b"\n" * 6, "too_many_tasks"),
    ],
)
async def test_a_file_of_which_nothing_can_be_served_fails(
    tmp_path: Path, content: bytes, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_LINES", 5)
    async with running(tmp_path) as (service, pool, client):
        batch = await ended(client, await submitted(client, content))
        assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
        assert batch.errors is not None
        assert batch.errors.data is not None
        assert [each.code for each in batch.errors.data] == [code]
        assert not pool.sent
        assert await service.service.store.active() == []


async def test_a_pool_without_room_is_asked_again_and_failures_end(tmp_path: Path) -> None:
    def script(prompt: str, times: int) -> Scripted:
        kind = prompt.split("-", maxsplit=1)[0]
        if kind == "busy" and times < 2:
            return Scripted(429 if times else 503, retry_after="0")
        if kind == "lost" and times < 2:
            return Scripted(lost=True)
        return Scripted({"bad": 400, "broken": 500}.get(kind, 200))

    asked = [
        f"{kind}-{number}" for kind in ("busy", "lost", "bad", "broken") for number in range(3)
    ]
    async with running(tmp_path, script) as (_, pool, client):
        batch = await ended(client, await submitted(client, jsonl(list(map(request_line, asked)))))
        output = await lines_of(client, batch.output_file_id)
        errors = await lines_of(client, batch.error_file_id)
        assert custom_ids(output) == asked[:6]
        assert custom_ids(errors) == asked[6:]
        assert [each["response"]["status_code"] for each in errors] == [400] * 3 + [500] * 3
        assert {pool.sent[each] for each in asked[:6]} == {3}
        assert {pool.sent[each] for each in asked[6:9]} == {1}
        assert {pool.sent[each] for each in asked[9:]} == {3}


async def test_lines_in_flight_are_bounded(tmp_path: Path) -> None:
    asked = [request_line(str(number)) for number in range(80)]
    script = lambda _prompt, _times: Scripted(seconds=0.02)  # noqa: E731
    async with running(tmp_path, script, max_in_flight=7) as (_, pool, client):
        await ended(client, await submitted(client, jsonl(asked)))
        assert pool.most_in_flight == 7


def stuck(prompt: str, _times: int) -> Scripted:
    return Scripted(seconds=0 if prompt.startswith("fast") else 3600)


async def test_a_batch_that_is_validated_may_be_finalized_by_another_replica_at_once(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    async with running(tmp_path, stuck, **store_settings) as (service, pool, client):
        batch_id = await submitted(client, jsonl([request_line("slow")]))
        await until(lambda: bool(pool.sent))
        claims = [
            await asyncio.sleep(0.1, await service.service.store.claim(batch_id, "another", 1.0))
            for _ in range(10)
        ]
        assert any(claims)


async def test_a_cancelled_batch_has_an_answer_for_every_line(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    asked = ["fast-1", "fast-2", *(f"slow-{number}" for number in range(40))]
    async with running(tmp_path, stuck, **store_settings) as (service, pool, client):
        batch_id = await submitted(client, jsonl(list(map(request_line, asked))))
        await until(lambda: service.service.recorder.recorded["Output"] == 2)
        assert (await client.batches.cancel(batch_id)).status in ("cancelling", "cancelled")
        batch = await ended(client, batch_id)
        assert batch.status == "cancelled"
        assert custom_ids(await lines_of(client, batch.output_file_id)) == asked[:2]
        errors = await lines_of(client, batch.error_file_id)
        assert custom_ids(errors) == asked[2:]
        assert {each["error"]["code"] for each in errors} == {"batch_cancelled"}
        await until(lambda: pool.in_flight == 0)
        assert batch.request_counts is not None
        assert batch.request_counts.completed == 2


async def test_a_batch_whose_window_ends_expires_with_what_it_has(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    asked = ["fast-1", "slow-1", "slow-2"]
    async with running(tmp_path, stuck, **store_settings) as (_, pool, client):
        batch_id = await submitted(client, jsonl(list(map(request_line, asked))), "2s")
        batch = await ended(client, batch_id)
        assert batch.status == "expired"
        assert batch.expired_at is not None
        assert custom_ids(await lines_of(client, batch.output_file_id)) == ["fast-1"]
        errors = await lines_of(client, batch.error_file_id)
        assert [(each["custom_id"], each["error"]["code"]) for each in errors] == [
            ("slow-1", "batch_expired"),
            ("slow-2", "batch_expired"),
        ]
        await until(lambda: pool.in_flight == 0)


async def test_a_batch_whose_input_is_not_validated_in_time_fails(tmp_path: Path) -> None:
    def broken(_content: bytes, _number: int, _endpoint: str) -> requests.BatchRequest:
        raise RuntimeError("a defect")

    async with running(tmp_path) as (_, _pool, client):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(requests, "read_request", broken)
            batch_id = await submitted(client, jsonl([request_line("a")]), "1s")
            batch = await ended(client, batch_id, 10)
        assert batch.status == "failed"
        assert batch.errors is not None
        assert batch.errors.data is not None
        assert [each.code for each in batch.errors.data] == ["batch_expired"]


async def test_the_batch_that_expires_first_is_served_first(tmp_path: Path) -> None:
    script = lambda _prompt, _times: Scripted(seconds=0.02)  # noqa: E731
    async with running(tmp_path, script, max_in_flight=1) as (_, pool, client):
        late = [request_line(f"late-{number}") for number in range(40)]
        first = await submitted(client, jsonl(late), "24h")
        await until(lambda: bool(pool.sent))
        soon = [request_line(f"soon-{number}") for number in range(5)]
        second = await submitted(client, jsonl(soon), "10m")
        await ended(client, second)
        assert (await client.batches.retrieve(first)).status == "in_progress"
        await ended(client, first)


async def test_a_line_is_sent_with_a_key_of_its_tenant(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    ours = [{"key": "key-of-search", "tenant": "search"}, {"key": "key-of-chat", "tenant": "chat"}]
    keys.write_text(json.dumps({"keys": ours}))
    async with (
        running(tmp_path, api_keys_file=str(keys)) as (service, pool, _),
        service.client("key-of-search") as client,
    ):
        await until(lambda: bool(service.service.ring and service.service.ring.keys))
        await ended(client, await submitted(client, jsonl([request_line("a")])))
        assert pool.headers[0]["Authorization"] == "Bearer key-of-search"


async def test_health_answers_while_a_large_file_is_uploaded_and_validated(tmp_path: Path) -> None:
    filler = "x" * 100_000
    lines = [request_line(f"line-{number}", prompt=filler) for number in range(400)]
    lines.append(request_line("long", prompt="x" * (requests.MAX_LINE_BYTES + 1)))
    content = jsonl(lines)
    async with running(tmp_path, stuck) as (service, _, client):
        waits = []
        done = asyncio.Event()

        async def probe() -> None:
            async with aiohttp.ClientSession() as session:
                while not done.is_set():
                    began = time.perf_counter()
                    async with session.get(f"{service.status_url}/healthz") as reply:
                        assert await reply.text() == "ok"
                    waits.append(time.perf_counter() - began)
                    await asyncio.sleep(0.005)

        probing = asyncio.create_task(probe())
        batch_id = await submitted(client, content)
        seen = service.service.supervisor
        await until(lambda: any(each.model for each, _ in seen.active))
        done.set()
        await probing
        assert len(waits) > 10
        assert sorted(waits)[len(waits) // 2] < 0.5
        batch = await client.batches.cancel(batch_id)
        assert batch.errors is not None
        assert batch.errors.data is not None
        assert [each.code for each in batch.errors.data] == ["line_too_long"]


async def test_metrics_and_status_show_the_work(tmp_path: Path) -> None:
    asked = ["fast-1", "slow-1", "slow-2"]
    async with (
        running(tmp_path, stuck) as (service, _, client),
        aiohttp.ClientSession() as session,
    ):
        await submitted(client, jsonl(list(map(request_line, asked))), "24h")
        await until(lambda: service.service.recorder.recorded["Output"] == 1)
        await until(
            lambda: (
                bool(service.service.supervisor.active)
                and service.service.supervisor.active[0][1].left == 2
            )
        )
        async with session.get(f"{service.status_url}/metrics") as reply:
            text = await reply.text()
        for sample in (
            'penstock_batches_active{status="in_progress"} 1.0',
            'penstock_batches_lines_left{model="demo"} 2.0',
            'penstock_batches_lines_in_flight{model="demo"} 2.0',
            'penstock_batches_lines_total{end="Output"} 1.0',
            'penstock_batches_answered_lines_total{model="demo"} 1.0',
            'penstock_batches_attempts_total{status="200"} 1.0',
        ):
            assert sample in text
        values = dict(
            re.findall(r'^(penstock_batches_\w+){model="demo"} (\S+)$', text, re.MULTILINE)
        )
        left = float(values["penstock_batches_seconds_to_deadline"])
        assert 0 < left <= 86_400
        rate = float(values["penstock_batches_required_lines_per_second"])
        assert rate == pytest.approx(2 / left)
        async with session.get(f"{service.status_url}/status") as reply:
            shown = (await reply.json())["batches"]
        assert [each["counts"] for each in shown] == [{"total": 3, "completed": 1, "failed": 0}]


async def test_while_redis_is_away_submissions_get_503_and_what_was_leased_is_answered_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "redis").mkdir()
    server = RedisServer(tmp_path / "redis")
    server.start()
    asked = [f"line-{number}" for number in range(8)]
    settings = {"store": "Redis", "redis_url": server.url, "namespace": str(tmp_path)}

    def script(_prompt: str, _times: int) -> Scripted:
        return Scripted(seconds=1.0)

    try:
        async with running(tmp_path, script, **settings) as (_, pool, client):
            content = jsonl([request_line(each) for each in asked])
            file = await client.files.create(file=("in.jsonl", content), purpose="batch")
            batch_id = await submitted(client, content)
            await until(lambda: bool(pool.sent))
            server.kill()
            with pytest.raises(openai.InternalServerError) as upload:
                await client.files.create(file=("in.jsonl", content), purpose="batch")
            with pytest.raises(openai.InternalServerError) as create:
                await client.batches.create(
                    input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
                )
            for refusal in (upload.value, create.value):
                assert refusal.status_code == 503
                assert int(refusal.response.headers["Retry-After"]) > 0
                assert "the store of batches does not take requests now" in refusal.message
            server.start()
            batch = await ended(client, batch_id)
            assert batch.status == "completed"
            assert custom_ids(await lines_of(client, batch.output_file_id)) == asked
    finally:
        server.kill()
