"""A separate process that requests `/healthz` every 5 ms, independent of the pod's interpreter lock."""

import selectors
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self

EVERY_SECONDS: Final = 0.005
_REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n"


class Probe:
    """Sends requests from its start to its end, and reports the longest wait since the last report."""

    def __init__(self, port: int) -> None:
        """`port`: of the cluster, on loopback."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.stalls.probe", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.longest_wait_seconds()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def longest_wait_seconds(self) -> float:
        """Return the longest wait for an answer since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("report", file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

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


def main(port: int) -> None:
    """Probe until standard input ends; each line of it is answered with the longest wait in seconds."""
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    longest = 0.0
    client = socket.create_connection(("127.0.0.1", port))
    while True:
        began = time.perf_counter()
        client.sendall(_REQUEST)
        answer = client.recv(65536)
        longest = max(longest, time.perf_counter() - began)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"/healthz answered {answer!r}")
        if selector.select(EVERY_SECONDS):
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]))
