"""Limits from the settings folder, at the start and later."""

import asyncio
import json
from pathlib import Path

import pytest

from penstock_runtime.engine.messages import SetLimits
from penstock_runtime.serving.limits import FIRST_LIMITS, LiveLimits, first_limits, watch_limits
from tests.unit.runtime.conftest import until

LIMITS = {
    "generation": 5,
    "maxBatchSize": 16,
    "maxQueueDepth": 5,
    "maxQueueDelayMilliseconds": 3,
    "discipline": "Priority",
}


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"generation": -1}', json.dumps(LIMITS | {"maxBatchSize": True})]
)
def test_absent_or_broken_settings_leave_the_built_in_limits(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "limits.json"
    if text is not None:
        path.write_text(text)
    assert first_limits(path) == FIRST_LIMITS


def test_a_pod_starts_with_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(LIMITS))
    assert first_limits(path).generation == 5


async def test_newer_settings_are_applied_and_older_ones_are_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "limits.json"
    sent: list[SetLimits] = []
    live = LiveLimits(FIRST_LIMITS, sent.append)
    watching = asyncio.create_task(watch_limits(path, live, every_seconds=0.01))
    path.write_text(json.dumps(LIMITS))
    await until(lambda: live.accepted.generation == 5)
    path.write_text("{ half a fi")
    await asyncio.sleep(0.03)
    path.write_text(json.dumps({**LIMITS, "generation": 4, "maxBatchSize": 1}))
    await asyncio.sleep(0.03)
    watching.cancel()
    assert live.accepted.max_batch_size == 16
    assert [message.update.generation for message in sent] == [5]
