"""`Dispatcher`: leases lines of batches in progress and has them served, the batch that expires first in front."""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, suppress
from typing import Final

from penstock_batches.config import BatchSettings
from penstock_batches.dispatch.gate import PoolGate, TenantGate
from penstock_batches.dispatch.recorder import AnswerRecorder
from penstock_batches.dispatch.sender import Sender
from penstock_batches.errors import StoreUnavailable
from penstock_batches.records import BatchJob, Line, Status
from penstock_batches.store.base import Store
from penstock_batches.transitions import TAKES_ANSWERS

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Time between two looks at the batches: a cancelled one stops within it."""
GATHER_SECONDS: Final = 0.02
"""Time in which ended lines gather before the next are leased."""


class Dispatcher:
    """Owns the lines that this process has leased."""

    def __init__(
        self,
        settings: BatchSettings,
        store: Store,
        sender: Sender,
        recorder: AnswerRecorder,
        owner: str,
    ) -> None:
        self._settings = settings
        self._store = store
        self._sender = sender
        self._recorder = recorder
        self._owner = owner
        self._serving: dict[str, dict[int, tuple[Line, asyncio.Task[None]]]] = defaultdict(dict)
        self._wake = asyncio.Event()
        """Set when a batch may have begun or ended."""
        self._changed = asyncio.Event()
        """Set when a line has ended as well."""
        self._stopping = False
        self.gates: dict[str, PoolGate] = {}
        """The gates by model."""
        self.answered: Counter[str] = Counter()
        """Lines that this process has answered, by model."""
        self.batches: list[BatchJob] = []
        """Batches in progress, as last seen."""

    def wake(self) -> None:
        """Look at the batches now."""
        self._wake.set()
        self._changed.set()

    async def run(self) -> None:
        """Dispatch until cancelled."""
        renewing = asyncio.create_task(self._renew())
        looked = 0.0
        try:
            while True:
                now = time.monotonic()
                try:
                    if now - looked >= LOOK_SECONDS or self._wake.is_set():
                        looked = now
                        await self._look()
                    self._wake.clear()
                    await self._fill()
                except StoreUnavailable as error:
                    log.warning("dispatch waits for the store: %s", error)
                    await asyncio.sleep(LOOK_SECONDS)
                await self._changes()
        finally:
            renewing.cancel()

    async def drain(self, seconds: float) -> None:
        """Lease nothing more, wait for the lines in flight, and give the rest back."""
        self._stopping = True
        tasks = [task for lines in self._serving.values() for _, task in lines.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for batch_id, lines in list(self._serving.items()):
            left = [line for line, _ in lines.values()]
            self._cancel(batch_id)
            try:
                await self._store.release(batch_id, self._owner, left)
            except StoreUnavailable as error:
                log.warning("%d leases end by themselves: %s", len(left), error)

    async def _changes(self) -> None:
        """Wait until a line or a batch has ended, and a little longer; for LOOK_SECONDS at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._changed.wait()
                await asyncio.sleep(GATHER_SECONDS)
        self._changed.clear()

    async def _look(self) -> None:
        active = await self._store.active()
        self.batches = [batch for batch in active if batch.status is Status.IN_PROGRESS]
        current = {batch.id for batch in self.batches}
        for batch_id in [each for each in self._serving if each not in current]:
            self._cancel(batch_id)
        await self._recorder.keep({each.id for each in active if each.status in TAKES_ANSWERS})
        for model, pool in self.gates.items():
            pool.keep({batch.tenant for batch in self.batches if batch.model == model})

    async def _fill(self) -> None:
        for batch in self.batches:
            if batch.model is None or self._stopping:
                continue
            pool = self.gates.get(batch.model)
            if pool is None:
                pool = self.gates[batch.model] = PoolGate(self._settings.max_in_flight)
            gate = pool.tenant(batch.tenant)
            room = gate.room
            if room == 0:
                continue
            seconds = self._settings.lease_seconds
            lines = await self._store.lease(batch.id, self._owner, room, seconds)
            for line in lines:
                self._begin(batch, line, gate)

    def _begin(self, batch: BatchJob, line: Line, gate: TenantGate) -> None:
        if line.number in self._serving[batch.id]:  # its lease ended here before its answer
            return
        gate.held += 1
        task = asyncio.create_task(self._serve(batch, line, gate))
        self._serving[batch.id][line.number] = (line, task)

    async def _serve(self, batch: BatchJob, line: Line, gate: TenantGate) -> None:
        try:
            async with AsyncExitStack() as memory:
                answer, ok = await self._sender.serve(batch, line, gate, memory)
                if await self._recorder.record(batch.id, line.number, answer, ok=ok):
                    self.answered[batch.model or ""] += 1
        except Exception:
            log.exception("line %d of %s is sent again", line.number, batch.id)
            await asyncio.sleep(LOOK_SECONDS)
        finally:
            gate.held -= 1
            serving = self._serving.get(batch.id, {})
            serving.pop(line.number, None)
            self._changed.set()

    def _cancel(self, batch_id: str) -> None:
        for _, task in self._serving.pop(batch_id, {}).values():
            task.cancel()

    async def _renew(self) -> None:
        seconds = self._settings.lease_seconds
        while True:
            await asyncio.sleep(seconds / 3)
            for batch_id, serving in list(self._serving.items()):
                lines = [line for line, _ in serving.values()]
                if not lines:
                    continue
                try:
                    await self._store.renew(batch_id, self._owner, lines, seconds)
                except StoreUnavailable as error:
                    log.warning("%d leases were not renewed: %s", len(lines), error)
