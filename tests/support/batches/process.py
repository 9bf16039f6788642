"""`python -m penstock_batches` as a process on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.runtime.process import INHERITED_ENVIRONMENT, START_SECONDS


class BatchesProcess:
    """A service whose port stays the same when it is killed and started again."""

    def __init__(self, folder: Path, port: int, **environment: str) -> None:
        self._folder = folder
        self._log = folder / "batches.log"
        self._environment = {
            "PENSTOCK_NAMESPACE": "team-a",
            "PENSTOCK_FOLDER": str(folder / "volume"),
            "PENSTOCK_HOST": "127.0.0.1",
            "PENSTOCK_PORT": str(port),
            "PENSTOCK_STATUS_PORT": "0",
            "PENSTOCK_MIN_FREE_BYTES": "0",
            "PENSTOCK_LEASE_SECONDS": "1",
            "PENSTOCK_DRAIN_SECONDS": "1",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock_batches"],
                stderr=log,
                env={**INHERITED_ENVIRONMENT, **self._environment},
            )

    def listening(self, times: int = 1) -> None:
        """Wait until it has begun to listen for the `times`th time."""
        end = time.monotonic() + START_SECONDS
        while sum(json.loads(line)["message"] == "listening" for line in self.lines()) < times:
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.05)

    def lines(self) -> list[str]:
        """Return the lines of its log."""
        return [line for line in self._log.read_text().splitlines() if line.startswith("{")]

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """Stop it with SIGTERM, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(START_SECONDS)
