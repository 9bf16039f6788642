"""`Supervisor`: looks at every batch that has not ended, and does what its state needs."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

from penstock_batches import transitions
from penstock_batches.errors import BatchesError, StateConflict, StoreUnavailable
from penstock_batches.pools import Pools
from penstock_batches.records import BatchJob, Counts, Status
from penstock_batches.store.base import Store
from penstock_batches.work.fair_tasks import FairTasks
from penstock_batches.work.finalizer import Finalizer
from penstock_batches.work.intake import Intake
from penstock_batches.work.webhooks import Webhooks

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
CLAIM_SECONDS: Final = 30.0


class Supervisor:
    """Validates, closes and finalizes batches."""

    def __init__(  # noqa: PLR0913, PLR0917  its parts
        self,
        store: Store,
        pools: Pools,
        intake: Intake,
        finalizer: Finalizer,
        webhooks: Webhooks,
        owner: str,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a batch has begun or ended."""
        self._store = store
        self._pools = pools
        self._intake = intake
        self._finalizer = finalizer
        self._webhooks = webhooks
        self._owner = owner
        self._changed = changed
        self._wake = asyncio.Event()
        self._work = FairTasks(self._attempt)
        self.active: list[tuple[BatchJob, Counts]] = []
        """Batches that have not ended, as last seen."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks that work on a batch: they outlast `run`, which begins no more when it ends."""
        return self._work.tasks

    def wake(self) -> None:
        """Look at the batches now."""
        self._wake.set()

    async def run(self) -> None:
        """Supervise until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except StoreUnavailable as error:
                    log.warning("batches wait for the store: %s", error)
                except Exception:
                    log.exception("a look at the batches failed and is repeated")
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._wake.wait()
                    self._wake.clear()
        finally:
            self._work.close()

    async def _look(self) -> None:
        everything = await self._store.active()
        active = [batch for batch in everything if batch.status not in transitions.ENDED]
        self.active = [(batch, await self._store.counts(batch.id)) for batch in active]
        self._webhooks.call([each for each in everything if each.status in transitions.ENDED])
        self._work.offer(batch for batch, counts in self.active if self._is_due(batch, counts))

    def _is_due(self, batch: BatchJob, counts: Counts) -> bool:
        now = time.time()
        match batch.status:
            case Status.VALIDATING:
                return self._pools.listed or transitions.lapses(batch, now)
            case Status.IN_PROGRESS:
                return transitions.closes(batch, counts, now)
            case _:
                return True

    async def _attempt(self, batch: BatchJob) -> None:
        """Do what a batch needs; a later look repeats what fails."""
        try:
            await self._advance(batch)
        except StateConflict:
            return  # another replica or a cancellation was faster
        except BatchesError as error:
            log.warning("%s is %s and waits: %s", batch.id, batch.status, error)
        except Exception:
            log.exception("%s is %s, and what it needs is repeated", batch.id, batch.status)

    async def _advance(self, batch: BatchJob) -> None:
        match batch.status:
            case Status.VALIDATING if transitions.lapses(batch, time.time()):
                await self._claimed(batch, self._intake.lapse)
            case Status.VALIDATING:
                await self._claimed(batch, self._intake.validate)
            case Status.IN_PROGRESS:
                closed = await self._store.write(transitions.finalizing(batch, time.time()))
                self._changed()
                await self._claimed(closed, self._finalizer.finalize)
            case _:
                await self._claimed(batch, self._finalizer.finalize)

    async def _claimed(
        self, batch: BatchJob, work: Callable[[BatchJob], Coroutine[None, None, None]]
    ) -> None:
        """Do `work` if no other replica does it, and keep the claim meanwhile."""
        if not await self._claim(batch):
            return
        task = asyncio.create_task(self._unless_changed(batch, work))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=CLAIM_SECONDS / 3)
                if not task.done() and not await self._claim(batch):
                    return
            await task
            self._changed()
        finally:
            task.cancel()
            with suppress(StoreUnavailable):
                await self._claim(batch, 0.0)  # another replica may continue at once

    async def _unless_changed(
        self, batch: BatchJob, work: Callable[[BatchJob], Coroutine[None, None, None]]
    ) -> None:
        """Do `work` if the batch is as it was read: it may have waited since."""
        current = await self._store.batch(batch.id)
        if current is not None and current.revision == batch.revision:
            await work(batch)

    async def _claim(self, batch: BatchJob, seconds: float = CLAIM_SECONDS) -> bool:
        return await self._store.claim(batch.id, self._owner, seconds)
