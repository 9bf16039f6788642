"""A separate process that requests `/healthz` every 5 ms, independent of the pod's interpreter lock."""

import os
import selectors
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

EVERY_SECONDS: Final = 0.005
_REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n"


class LongestWaits(NamedTuple):
    """The longest waits for an answer since the last report."""

    seconds: float
    unqueued: float
    """Seconds without those in which a thread of the pod or of the probe was ready to run and waited for a processor."""


class Probe:
    """Sends requests from its start to its end, and reports the longest waits since the last report."""

    def __init__(self, port: int, pid: int) -> None:
        """`port`: of the cluster, on loopback; `pid`: of the pod."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.stalls.probe", str(port), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.longest()

    def longest(self) -> LongestWaits:
        """Return the longest waits since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("report", file=self._process.stdin, flush=True)
        return LongestWaits(*map(float, self._process.stdout.readline().split()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def queued_seconds(pid: int) -> dict[str, float]:
    """Return the run delay of each thread of the pod and of this process (Documentation/scheduler/sched-stats.rst)."""
    delays: dict[str, float] = {}
    for process in (pid, os.getpid()):
        for file in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                delays[file.parts[-2]] = int(file.read_text().split()[1]) / 1e9
    return delays


def main(port: int, pid: int) -> None:
    """Probe until standard input ends; each line of it is answered with the longest waits in seconds."""
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    longest = LongestWaits(0.0, 0.0)
    client = socket.create_connection(("127.0.0.1", port))
    while True:
        queued, began = queued_seconds(pid), time.perf_counter()
        client.sendall(_REQUEST)
        answer = client.recv(65536)
        wait = time.perf_counter() - began
        meanwhile = sum(at - queued.get(file, 0.0) for file, at in queued_seconds(pid).items())
        longest = LongestWaits(*map(max, longest, (wait, wait - meanwhile)))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"/healthz answered {answer!r}")
        if selector.select(EVERY_SECONDS):
            if not sys.stdin.readline():
                return
            print(*longest, flush=True)
            longest = LongestWaits(0.0, 0.0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
