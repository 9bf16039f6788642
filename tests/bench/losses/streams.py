"""Clients of generated text: each answer must equal, byte by byte, that of a run in which nothing changed."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import aiohttp

from tests.bench.losses.clients import PAUSE_SECONDS, Notes
from tests.bench.losses.generating_pool import PORT
from tests.unit.runtime.protocols.handover.cases import CALLS, Call, by_choice, normalized

STREAM_SECONDS: Final = 120.0
MAX_TOKENS: Final = 128
"""Of an answer, so that many are not complete when their pod hands them over."""
Answer = dict[bytes, list[bytes]]
"""The events of each choice."""


@dataclass(slots=True)
class StreamTally:
    """What became of the answers."""

    equal: int = 0
    lost: Notes = field(default_factory=Notes)
    """Requests without an answer of status 200, or whose connection broke."""
    different: Notes = field(default_factory=Notes)
    sent_again: int = 0
    """Times that clients sent a request again since the Envoy that had it was killed."""

    @property
    def failures(self) -> list[str]:
        """Everything that must not be."""
        return [*self.lost.examples, *self.different.examples]


@dataclass(slots=True)
class Streams:
    """Clients that send one call after the other, with a pause, while `busy`."""

    gateway: Callable[[], str]
    """Address of the gateway that a new connection reaches."""
    is_down: Callable[[str], bool]
    """Whether the Envoy at an address was killed: clients send again what it had."""
    busy: Callable[[], bool]
    pause_seconds: float
    tally: StreamTally = field(default_factory=StreamTally)
    _undisturbed: Sequence[Answer] = ()
    _numbers: Iterator[int] = field(default_factory=count)
    _begin: float = field(default_factory=time.monotonic)

    async def run(self, clients: int) -> None:
        """Send from this many clients at a time."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(self._client())

    async def record(self, url: str) -> None:
        """Record the answers of a pod that nothing disturbs.

        Raises:
            AssertionError: one is short, or an error.
        """
        answers = []
        for call in STREAMS:
            status, answer = await _answer(url, call)
            assert status == 200, answer
            assert len(answer) > 500, answer
            answers.append(by_choice(answer))
        self._undisturbed = answers

    async def _client(self) -> None:
        while self.busy():
            number = next(self._numbers)
            try:
                async with asyncio.timeout(STREAM_SECONDS):
                    status, answer = await self._exchange(STREAMS[number % len(STREAMS)])
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self._note(self.tally.lost, number, f"{type(error).__name__} {error}")
            else:
                self._judge(number, status, answer)
            await asyncio.sleep(self.pause_seconds)

    async def _exchange(self, call: Call) -> tuple[int, bytes]:
        while True:
            host = self.gateway()
            try:
                return await _answer(f"http://{host}:{PORT}", call)
            except (aiohttp.ClientError, OSError):
                if not self.is_down(host):
                    raise
            self.tally.sent_again += 1
            await asyncio.sleep(PAUSE_SECONDS)

    def _judge(self, number: int, status: int, answer: bytes) -> None:
        if status != 200:
            self._note(self.tally.lost, number, f"{status} {answer[:200]!r}")
        elif by_choice(answer) != self._undisturbed[number % len(STREAMS)]:
            self._note(self.tally.different, number, repr(answer[-300:]))
        else:
            self.tally.equal += 1

    def _note(self, notes: Notes, number: int, what: str) -> None:
        notes.add(f"stream {number} at {time.monotonic() - self._begin:.1f} s: {what}")


async def _answer(url: str, call: Call) -> tuple[int, bytes]:
    """Return status and body, without ids and times of creation."""
    path, body = call
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as reply:
        return reply.status, normalized(await reply.read())


def _lengthened(call: Call) -> Call:
    path, body = call
    longer: dict[str, Any] = {"max_tokens": MAX_TOKENS}
    if "parameters" in body:
        return path, {**body, "parameters": {**body["parameters"], **longer}}
    return path, {**body, **longer}


STREAMS: Final[Sequence[Call]] = [_lengthened(call) for call in CALLS.values()]
