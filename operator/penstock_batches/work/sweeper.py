"""`Sweeper`: deletes what is over from the store and from the volume, whatever the batches wait for."""

import asyncio
import logging
import time
from typing import Final

from penstock_batches import transitions
from penstock_batches.errors import StoreUnavailable
from penstock_batches.payloads import Payloads
from penstock_batches.records import Purpose
from penstock_batches.store.base import Store
from penstock_batches.work.finalizer import DAY_SECONDS, Finalizer

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 60.0
PAGE_SECONDS: Final = 0.5
"""Time between two pages."""
SWEPT_FILES: Final = 100
"""Files or records of a page."""
MIN_RECORD_SECONDS: Final = 30 * 86_400.0
"""Time after the window of a batch for which its record stays at least: no answers are kept longer by its `output_expires_after`."""
ORPHAN_SECONDS: Final = 3600.0
"""Age from which content without a record is of no upload that is still being recorded."""


class Sweeper:
    """Deletes files and records whose time is over, and what kills left."""

    def __init__(
        self, store: Store, payloads: Payloads, finalizer: Finalizer, file_days: float
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._finalizer = finalizer
        self._record_seconds = max(MIN_RECORD_SECONDS, file_days * DAY_SECONDS)
        self._swept_content = float("-inf")

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            more = False
            try:
                more = await self._sweep()
            except StoreUnavailable as error:
                log.warning("files are deleted later: %s", error)
            except Exception:
                log.exception("a deletion of files failed and is repeated")
            await asyncio.sleep(PAGE_SECONDS if more else SWEEP_SECONDS)

    async def _sweep(self) -> bool:
        """Delete what is over; return whether there may be more files or records."""
        if await self._sweep_files() or await self._sweep_batches():
            return True
        await self._sweep_answers()
        now = time.monotonic()
        if now - self._swept_content >= ORPHAN_SECONDS:
            self._swept_content = now
            await self._sweep_content()
        return False

    async def _sweep_files(self) -> bool:
        """Delete the first files whose time is over and that no active batch reads; return whether there were any.

        The content goes first: a store on a full volume may need its room to delete the record.
        """
        used = {batch.input_file_id for batch in await self._store.active()}
        now, skip = time.time(), 0
        while page := await self._store.expired_files(now, SWEPT_FILES, skip):
            unused = [file for file in page if file.id not in used]
            for file in unused:
                await asyncio.to_thread(self._payloads.delete, file.id)
                if file.purpose is Purpose.INFER:
                    await self._store.delete_batch(file.filename)
                await self._store.delete_file(file.id)
            if unused:
                return True
            skip += len(page)
        return False

    async def _sweep_batches(self) -> bool:
        """Delete the first records of batches that are over; return whether there were any."""
        page = await self._store.ended_batches(time.time() - self._record_seconds, SWEPT_FILES)
        for batch in page:
            await self._finalizer.forget(batch.id)
            await self._store.delete_batch(batch.id)
        return bool(page)

    async def _sweep_content(self) -> None:
        """Delete parts and content that a kill left without a record."""
        await asyncio.to_thread(self._payloads.remove_stale_parts)
        before = time.time() - ORPHAN_SECONDS
        for file_id in await asyncio.to_thread(self._payloads.files_before, before):
            if await self._store.file(file_id) is None:
                await asyncio.to_thread(self._payloads.delete, file_id)

    async def _sweep_answers(self) -> None:
        """Delete the answers of batches that have ended."""
        for batch_id in await asyncio.to_thread(self._payloads.answered_batches):
            batch = await self._store.batch(batch_id)
            if batch is not None and batch.status in transitions.ENDED:
                await self._finalizer.forget(batch_id)
