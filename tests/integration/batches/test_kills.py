"""Real pods, a real store and the service as processes, killed at random moments: each `custom_id` is answered once."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.batches.served import ENDED, jsonl, lines_of, request_line
from tests.support.batches.stage import PodProcess, Stage, batch_when, persistently

MAX_TOKENS = 24


@pytest.fixture(params=["sqlite", "redis"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    pod = PodProcess(tmp_path / "pod")
    opened = Stage(tmp_path / "stage", request.param, [pod], pod.url)
    try:
        opened.ready()
        yield opened
    finally:
        opened.end()


async def answered_once(stage: Stage, lines: int, kills: int, pod_kills: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  moments, no secret
    asked = [f"line-{number}" for number in range(lines)]
    content = jsonl([request_line(each, max_tokens=MAX_TOKENS, ignore_eos=True) for each in asked])
    async with openai.AsyncOpenAI(base_url=stage.url, api_key="none", max_retries=0) as client:
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
        )
        plan = stage.plan(kills, pod_kills, chance)
        for kind in plan:
            await asyncio.sleep(chance.uniform(0.1, 2.0))
            await asyncio.to_thread(stage.kill, kind, chance)
        assert (await persistently(lambda: client.batches.retrieve(batch.id))).status not in ENDED
        batch = await batch_when(client, batch.id, ENDED, seconds=1800)
        assert batch.status == "completed"
        output = await lines_of(client, batch.output_file_id)
        errors = await lines_of(client, batch.error_file_id)
        assert [line["custom_id"] for line in output] == asked, errors[:3]
        assert batch.request_counts is not None
        assert batch.request_counts.to_dict() == {"total": lines, "completed": lines, "failed": 0}
        tokens = {line["response"]["body"]["usage"]["completion_tokens"] for line in output}
        assert tokens == {MAX_TOKENS}


async def test_each_custom_id_is_answered_once_whatever_is_killed(stage: Stage) -> None:
    await answered_once(stage, lines=1000, kills=7, pod_kills=1, seed=7)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_each_custom_id_is_answered_once_after_fifty_kills(stage: Stage) -> None:
    await answered_once(stage, lines=10_000, kills=50, pod_kills=4, seed=11)


async def test_the_service_ends_at_sigterm_and_goes_on_after_it(stage: Stage) -> None:
    async with openai.AsyncOpenAI(base_url=stage.url, api_key="none", max_retries=0) as client:
        content = jsonl([request_line(str(number), max_tokens=200) for number in range(100)])
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
        )
        await batch_when(client, batch.id, ("in_progress",), seconds=60)
        assert await asyncio.to_thread(stage.service.stop) == 0
        stage.service.start()
        batch = await batch_when(client, batch.id, ENDED, seconds=200)
        output = await lines_of(client, batch.output_file_id)
        assert [line["custom_id"] for line in output] == [str(number) for number in range(100)]
