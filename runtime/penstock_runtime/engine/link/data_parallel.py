"""`DataParallelLink`: one link to several batch engines, each a process with the whole model on its own device.

Each request goes to the engine with the fewest rows in relation to its cap. To the rest of the pod, and to the control law,
the engines are one device that runs `engines` batches at once (`merged_reports.py`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from typing_extensions import override

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


class DataParallelLink(EngineLink[ToEngine, Settled, ModelInfo]):
    """Divides requests and the batch cap over engines, which end together."""

    def __init__(self, links: Sequence[BatchProcess], cap: int) -> None:
        """`cap` is the first batch cap of all engines together, in rows."""
        self._links = links
        self._caps = cap_shares(cap, len(links))
        self._rows = [0] * len(links)
        """Rows of the requests that each engine has."""
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
        """Return the heartbeat of the engine that is latest with its step, with the oldest sign of life of all."""
        beats = [link.heartbeat() for link in self._links]
        busy = [beat for beat in beats if beat.busy]
        latest = min(busy or beats, key=lambda beat: beat.last_step + beat.predicted_seconds)
        return replace(latest, alive_at=min(beat.alive_at for beat in beats))

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
