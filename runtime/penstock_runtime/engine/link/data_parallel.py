"""`DataParallelLink`: one link to several batch engines, each a process with the whole model on its own device.

Each request goes to the engine with the fewest rows in relation to its cap. To the rest of the pod, and to the control law,
the engines are one device that runs `engines` batches at once (`merged_reports.py`).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from typing_extensions import override

from penstock_runtime.engine.dynamic.loop import IDLE_TICK_SECONDS
from penstock_runtime.engine.link.base import EngineLink, Heartbeat
from penstock_runtime.engine.link.group import start_together
from penstock_runtime.engine.link.merged_reports import cap_shares, merged
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.messages import (
    Cancel,
    Drain,
    EngineDied,
    EngineReport,
    SetLimits,
    Settled,
    Submit,
    ToEngine,
)
from penstock_runtime.engine.model import ModelInfo, ModelLoadFailed
from penstock_runtime.request import Request

BatchProcess = ProcessLink[ToEngine, Settled, ModelInfo]

SILENT_SECONDS: Final = 2 * IDLE_TICK_SECONDS
"""Time without a sign of life from which an engine without requests is judged."""


class DataParallelLink(EngineLink[ToEngine, Settled, ModelInfo]):
    """Divides requests and the batch cap over engines, which end together."""

    def __init__(
        self,
        links: Sequence[BatchProcess],
        cap: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cap` is the first batch cap of all engines together, in rows."""
        self._links = links
        self._clock = clock
        self._caps = cap_shares(cap, len(links))
        self._rows = [0] * len(links)
        """Rows of the requests that each engine has."""
        self._since = [clock()] * len(links)
        """Time since which each engine that has requests has always had some."""
        self._owners: dict[str, tuple[int, int]] = {}
        """Engine and rows of each request that has not ended."""
        self._reports: dict[int, EngineReport] = {}
        self._loaded = False
        self._lost: str | None = None
        """Which engine has died, and of what."""
        self._ended = False
        """Whether the link is closed, or an engine has died."""
        self._deliver: Callable[[Settled | EngineDied], None]

    @override
    async def start(self, deliver: Callable[[Settled | EngineDied], None]) -> ModelInfo:
        self._deliver = deliver
        try:
            infos = await start_together(self._links, self._receive, self._named)
        except ModelLoadFailed:
            if self._lost is None:
                raise
        if self._lost is not None:
            raise ModelLoadFailed(self._lost)
        self._loaded = True
        first: ModelInfo = infos[0]
        return first

    @override
    def send(self, message: ToEngine) -> None:
        match message:
            case Submit(requests):
                self._submit(requests)
            case Cancel(ids):
                self._cancel(ids)
            case SetLimits(update):
                self._caps = cap_shares(update.max_batch_size, len(self._links))
                for link, cap in zip(self._links, self._caps, strict=True):
                    share = update.model_copy(update={"max_batch_size": max(1, cap)})
                    link.send(SetLimits(share))
            case Drain():
                for link in self._links:
                    link.send(message)

    @override
    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Ignore the hint, as a `ProcessLink` does."""

    @override
    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat of the engine that is latest with its step, or with its sign of life if it owes no step."""
        now = self._clock()
        beats = [self._beat(engine) for engine in range(len(self._links))]
        judged = [
            beat
            for beat, rows in zip(beats, self._rows, strict=True)
            if rows or beat.busy or now - beat.alive_at > SILENT_SECONDS
        ]
        return min(judged or beats, key=lambda beat: beat.last_step + beat.predicted_seconds)

    def _beat(self, engine: int) -> Heartbeat:
        """Return the heartbeat of one engine; time without requests does not count as time without a step."""
        beat = self._links[engine].heartbeat()
        if beat.busy:
            return beat
        idle_until = self._since[engine] if self._rows[engine] else beat.alive_at
        return replace(beat, last_step=max(beat.last_step, idle_until))

    @override
    def kill(self) -> None:
        self._ended = True
        for link in self._links:
            link.kill()

    @override
    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))
        self._ended = True

    def _submit(self, requests: Sequence[Request]) -> None:
        shares: dict[int, list[Request]] = {}
        for request in requests:
            engine = self._least_loaded()
            if not self._rows[engine]:
                self._since[engine] = self._clock()
            self._rows[engine] += request.rows
            self._owners[request.id] = engine, request.rows
            shares.setdefault(engine, []).append(request)
        for engine, share in shares.items():
            self._links[engine].send(Submit(tuple(share)))

    def _least_loaded(self) -> int:
        """Return the engine with the fewest rows per row of its cap; the first of several."""
        with_cap = (engine for engine, cap in enumerate(self._caps) if cap)
        return min(with_cap, key=lambda engine: self._rows[engine] / self._caps[engine])

    def _cancel(self, ids: Sequence[str]) -> None:
        for name in ids:
            if name in self._owners:
                self._links[self._owners[name][0]].send(Cancel((name,)))

    def _receive(self, engine: int, message: Settled | EngineDied) -> None:
        if self._ended:
            return
        if isinstance(message, EngineDied):
            self.kill()
            self._lost = self._named(engine, message.reason)
            if self._loaded:
                self._deliver(EngineDied(self._lost))
            return
        for name, _ in message.ends:
            owner, rows = self._owners.pop(name)
            self._rows[owner] -= rows
        self._reports[engine] = message.report
        if len(self._reports) == len(self._links):
            report = merged([self._reports[index] for index in range(len(self._links))])
            self._deliver(Settled(message.ends, message.batch, report, message.began))

    def _named(self, engine: int, text: str) -> str:
        return f"engine {engine} of {len(self._links)}: {text}"
