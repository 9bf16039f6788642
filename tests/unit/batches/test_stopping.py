"""SIGTERM while the store cannot be opened."""

import fcntl
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.batches.process import BatchesProcess
from tests.support.batches.stage import free_port

AWAY = {
    "PENSTOCK_STORE": "Redis",
    "PENSTOCK_REDIS_URL": "redis://127.0.0.1:1/0",
}


@pytest.mark.parametrize("environment", [{}, AWAY], ids=["sqlite", "redis"])
def test_a_service_without_its_store_stops_at_once(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "volume" / "store"
    folder.mkdir(parents=True)
    process = BatchesProcess(
        tmp_path, free_port(), PENSTOCK_POOLS="demo=http://127.0.0.1:9", **environment
    )
    with (folder / "store.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as an earlier process that has not ended
        process.start()
        payloads = tmp_path / "volume" / "payloads" / "parts"
        end = time.monotonic() + 60
        while not payloads.is_dir():
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(1.0)
        assert process.process is not None
        process.process.terminate()
        try:
            assert process.process.wait(10) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            raise
