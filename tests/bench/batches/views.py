"""`Views`: kills the operator, and times until the pool's status is right again."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Final

import openai
from openai.types import Batch

from tests.bench.batches.operated_pool import OperatedPool
from tests.support.batches.stage import persistently

LATE_SECONDS: Final = 180.0
"""The Lease of a killed operator expires after 15 s, a new process then measures the pods, and figures are written once a minute."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the pool's status said of the batch."""

    again: list[float]
    """Seconds from each kill until the status had a right figure that was read after it."""
    ended_first: int
    """Kills after which the batch ended first."""
    late: int
    """Times that the status was not right `LATE_SECONDS` after the last kill, or after the batch's end."""
    at_end: float
    """Seconds from the batch's end until the status had no batch work."""


class Views:
    """The pool's status next to what the batch service says of a batch of `lines` lines."""

    def __init__(
        self, operated: OperatedPool, client: openai.AsyncOpenAI, batch: Batch, lines: int
    ) -> None:
        self._operated = operated
        self._client = client
        self._batch = batch
        self._lines = lines
        self._killed = 0.0
        self._again: list[asyncio.Task[float | None]] = []

    async def kill_operator(self) -> None:
        """Kill the operator and start it again; the wait for its view goes on in the background."""
        left = await self._left()
        self._killed = time.monotonic()
        await asyncio.to_thread(self._operated.operator.restart_killed)
        waiting = self._right_again(left, await self._seen(), self._killed)
        self._again.append(asyncio.create_task(waiting))

    async def at_end(self) -> Seen:
        """Return what was seen, after the batch's end."""
        at_end, ended = math.inf, time.monotonic()
        while at_end == math.inf and time.monotonic() - ended < LATE_SECONDS:
            if await self._seen() is None:
                at_end = time.monotonic() - ended
            await asyncio.sleep(1)
        times = await asyncio.gather(*self._again)
        return Seen(
            again=[round(each, 1) for each in times if each not in (None, math.inf)],
            ended_first=times.count(None),
            late=[*times, at_end].count(math.inf),
            at_end=round(at_end, 1),
        )

    async def _right_again(self, before: int, stale: int | None, killed: float) -> float | None:
        """Return the seconds until the status has a figure from after the kill; None: the batch ended first.

        The killed process left the figure `stale`, which may be an earlier batch's. Another one is the new process's, and
        right if the service has said it since the kill, when `before` lines were left.
        """
        while time.monotonic() - self._killed < LATE_SECONDS:
            seen, left = await self._seen(), await self._left()
            if left == 0:
                return None
            if seen not in (None, stale) and left <= seen <= before:
                return time.monotonic() - killed
            await asyncio.sleep(1)
        return math.inf

    async def _seen(self) -> int | None:
        return await asyncio.to_thread(self._operated.lines_left)

    async def _left(self) -> int:
        batch = await persistently(lambda: self._client.batches.retrieve(self._batch.id))
        counts = batch.request_counts
        return self._lines - (0 if counts is None else counts.completed + counts.failed)
