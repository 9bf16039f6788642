"""A client that streams while others send grammars, and its longest wait for a token."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

Body = dict[str, Any]


@dataclass
class Innocent:
    """Streams one answer after another."""

    url: str
    longest_seconds: float = 0.0
    """Between two tokens, or before a first one."""
    tokens: int = 0
    failed: str = ""

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Stream while the block runs, from its first token on; nothing may fail."""
        self._began, self._done = threading.Event(), threading.Event()
        thread = threading.Thread(target=self._live, daemon=True)
        thread.start()
        assert self._began.wait(60)
        try:
            yield
        finally:
            self._done.set()
            thread.join(60)
        assert not self.failed

    def wait_for(self, tokens: int) -> None:
        """Wait until so many more have come."""
        wanted, deadline = self.tokens + tokens, time.monotonic() + 60
        while self.tokens < wanted and time.monotonic() < deadline and not self.failed:
            time.sleep(0.01)
        assert self.tokens >= wanted

    def _live(self) -> None:
        with httpx2.Client(base_url=self.url, timeout=60) as client:
            while not self._done.is_set() and not self.failed:
                self._stream(client)

    def _stream(self, client: httpx2.Client) -> None:
        body = {"prompt": "A", "max_tokens": 900, "ignore_eos": True, "stream": True}
        last = time.monotonic()
        with client.stream("POST", "/v1/completions", json=body) as reply:
            if reply.status_code != 200:
                self.failed = f"{reply.status_code}: {reply.read()!r}"
            for line in reply.iter_lines():
                if '"error"' in line:
                    self.failed = line
                if not line:
                    continue
                now = time.monotonic()
                if self._began.is_set():
                    self.longest_seconds = max(self.longest_seconds, now - last)
                last = now
                self.tokens += 1
                self._began.set()
                if self._done.is_set():
                    return
