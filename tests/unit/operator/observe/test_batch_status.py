"""The operator reads the batches of a namespace from the batch service itself."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from yarl import URL

from penstock_operator.net.http import new_session
from penstock_operator.observe.batch_status import (
    CACHE_SECONDS,
    BatchReader,
    by_model,
    service_url,
)
from penstock_operator.observed import PoolObject
from tests.support.batches.scripted_pool import Scripted, scripted_pool
from tests.support.batches.served import (
    jsonl,
    request_line,
    served,
    settings,
    submitted,
    until,
)
from tests.unit.operator.decide.world import pool

NOW = 1000.0


def pool_of(model: str) -> PoolObject:
    return pool(model, batchWork={"maxReplicas": 1})


async def test_the_batches_of_a_pools_model_are_read_from_the_service(tmp_path: Path) -> None:
    slow = Scripted(seconds=600)
    async with (
        scripted_pool(lambda _prompt, _times: slow) as behind,
        served(settings(tmp_path, pools=f"demo={behind.url}")) as service,
        service.client() as client,
        new_session() as session,
    ):
        content = jsonl([request_line(str(number)) for number in range(5)])
        await submitted(client, content, "2h")
        await until(lambda: behind.in_flight > 0)
        reader = BatchReader(session, lambda _namespace: URL(f"{service.status_url}/status"))
        now, loads = NOW, await reader.read(pool_of("demo"), NOW)
        while not loads:  # the service refreshes its status now and then
            await asyncio.sleep(0.05)
            now += CACHE_SECONDS
            loads = await reader.read(pool_of("demo"), now)
        (load,) = loads
        assert load.lines_left == 5
        assert load.expires - load.created == 2 * 3600
        assert await reader.read(pool_of("other"), now) == ()
        without = pool_of("demo")
        without = replace(without, spec=without.spec.model_copy(update={"batch_work": None}))
        assert await reader.read(without, now) is None


async def test_a_service_that_does_not_answer_is_unknown_and_asked_again_later() -> None:
    asked: list[str] = []

    def nowhere(namespace: str) -> URL:
        asked.append(namespace)
        return URL("http://127.0.0.1:9/status")

    async with new_session() as session:
        reader = BatchReader(session, nowhere)
        for later in (0.0, CACHE_SECONDS / 2, CACHE_SECONDS, -900.0):  # the clock stepped back
            assert await reader.read(pool_of("demo"), NOW + later) is None
    assert asked == ["team-a"] * 3


def test_only_batches_in_progress_count_and_their_lines_are_bounded() -> None:
    def batch(status: str, total: int, done: int, model: str | None = "demo") -> dict[str, object]:
        counts = {"total": total, "completed": done, "failed": 0}
        return {"status": status, "created_at": 1, "expires_at": 2, "model": model, "counts": counts}  # fmt: skip

    batches = [
        batch("validating", 9, 0, None), batch("finalizing", 9, 9),
        batch("in_progress", 10**30, 0), batch("in_progress", 1, 2),
    ]  # fmt: skip
    loads = by_model(msgspec.json.encode({"batches": batches}))
    assert [load.lines_left for load in loads["demo"]] == [10**9, 0]
    with pytest.raises(msgspec.MsgspecError):
        by_model(b'{"batches": [{"status": 1}]}')


def test_the_service_is_that_of_the_pools_namespace() -> None:
    assert str(service_url("team-a")) == "http://penstock-batches.team-a.svc:8091/status"
