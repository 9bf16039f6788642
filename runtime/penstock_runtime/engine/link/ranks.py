"""`RankedLink`: a link to a generation engine that is split over several processes, the ranks of one model.

Each rank is the child of a `ProcessLink`. The ranks end together: if one dies or is silent, the others are killed.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.ranks import (
    StepFollower,
    open_following_engine,
    open_leading_engine,
)
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.link.base import EngineLink, Heartbeat
from penstock_runtime.engine.link.group import start_together
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.placement import RankSeat

SILENT_SECONDS: Final = 6.0
"""Time without a pulse after which a rank counts as hung; a rank pulses every second."""
LOOK_SECONDS: Final = 0.5
"""Interval of the checks for silent ranks."""
ASLEEP_SECONDS: Final = 3.0
"""Interval between two checks above which this process was suspended, and perhaps the ranks too."""
LAST_WORDS_SECONDS: Final = 0.5
"""Time after the first death for which the other ranks may report what happened to them."""


class RankedLink(EngineLink[ToGeneration, Stepped, GenerationInfo]):
    """Starts, watches and ends the ranks; the engine is rank 0."""

    def __init__(
        self,
        leader: ProcessLink[ToGeneration, Stepped, GenerationInfo],
        followers: Sequence[ProcessLink[Any, None, None]],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`, in which the ranks meet, is removed at the end."""
        self._leader = leader
        self._links: list[ProcessLink[Any, Any, Any]] = [leader, *followers]
        self._folder = folder
        self._clock = clock
        self._words: list[str] = []
        """What is known of the ranks that were lost, in order of time."""
        self._ended = False
        """Whether the link is closed, or was killed."""
        self._deliver: Callable[[Stepped | EngineDied], None]
        self._watching: asyncio.Task[None] | None = None

    @override
    async def start(self, deliver: Callable[[Stepped | EngineDied], None]) -> GenerationInfo:
        self._deliver = deliver
        try:
            infos = await start_together(self._links, self._receive, self._named)
        except BaseException:
            self.kill()
            raise
        info: GenerationInfo = infos[0]
        self._watching = asyncio.create_task(self._watch())
        return info

    @override
    def send(self, message: ToGeneration) -> None:
        self._leader.send(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Ignore the hint, as a `ProcessLink` does."""

    @override
    def heartbeat(self) -> Heartbeat:
        return self._leader.heartbeat()

    @override
    def kill(self) -> None:
        self._ended = True
        for link in self._links:
            link.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @override
    async def close(self) -> None:
        self._ended = True
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.gather(*(link.close() for link in self._links))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _receive(self, rank: int, message: Stepped | EngineDied | None) -> None:
        if isinstance(message, EngineDied):
            self._lose(rank, message.reason)
        elif message is not None and not self._ended:
            self._deliver(message)

    def _lose(self, rank: int, reason: str) -> None:
        """Record the end of a rank, and end the others after the first."""
        if self._ended:
            return
        self._words.append(self._named(rank, reason))
        if len(self._words) == 1:
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._end)

    def _end(self) -> None:
        if not self._ended:
            self.kill()
            self._deliver(EngineDied("; ".join(self._words)))

    def _named(self, rank: int, text: str) -> str:
        return f"rank {rank} of {len(self._links)}: {text}"

    async def _watch(self) -> None:
        """Check the pulse of every rank until one is silent."""
        looked_at = awake_since = self._clock()
        while not self._ended:
            now = self._clock()
            if now - looked_at > ASLEEP_SECONDS:
                awake_since = now
            looked_at = now
            for rank, link in enumerate(self._links):
                silent = now - max(link.heartbeat().alive_at, awake_since)
                if silent > SILENT_SECONDS:
                    self._lose(rank, f"it hangs: no sign of life for {silent:.0f} s")
                    return
            await asyncio.sleep(LOOK_SECONDS)


def ranked_link(
    lead: Callable[[RankSeat], StepExecutor],
    follow: Callable[[RankSeat], StepFollower],
    options: StepOptions,
    limits: LimitsUpdate,
    *,
    depth: int = 0,
) -> RankedLink:
    """Return a link to an engine of several ranks; `lead` and `follow` load a rank in its process, and are picklable."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-ranks-"))
    leader, *others = (
        RankSeat(rank, options.tensor_parallel, options.pipeline_parallel, folder)
        for rank in range(options.ranks)
    )
    opener = partial(open_leading_engine, partial(lead, leader), limits, depth)
    followers: list[ProcessLink[Any, None, None]] = [
        ProcessLink(partial(open_following_engine, partial(follow, seat))) for seat in others
    ]
    return RankedLink(ProcessLink(opener), followers, folder)
