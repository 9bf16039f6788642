"""`AnswerRecorder`: writes answers to the volume and to the store, many at a time."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from penstock_batches.errors import StoreUnavailable, VolumeFull
from penstock_batches.payloads import Payloads, Segment
from penstock_batches.records import Answer
from penstock_batches.store.base import Store

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
MAX_GROUP: Final = 256
MAX_GROUP_BYTES: Final = 8 * 2**20
"""Answers that are written in one go, unless a single one is larger."""


@dataclass(slots=True)
class _Unrecorded:
    number: int
    content: bytes
    ok: bool
    recorded: "asyncio.Future[bool]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class AnswerRecorder:
    """Records answers of one process, the owner of its segments.

    An answer is on the disk before the store refers to it. A kill in between leaves bytes that nothing refers to, and the line
    is sent again.
    """

    def __init__(self, store: Store, payloads: Payloads, owner: str) -> None:
        self._store = store
        self._payloads = payloads
        self._owner = owner
        self._waiting: dict[str, list[_Unrecorded]] = defaultdict(list)
        self._segments: dict[str, Segment] = {}
        self._appending = asyncio.Lock()
        self._wake = asyncio.Event()
        self.recorded: Counter[str] = Counter()
        """Lines by end: Output, Error, and Discarded for answers that came too late."""

    async def record(self, batch_id: str, number: int, content: bytes, *, ok: bool) -> bool:
        """Record the answer of a line, for as long as it takes; return whether it is the line's first."""
        while True:
            try:
                return await self.record_once(batch_id, number, content, ok=ok)
            except (VolumeFull, OSError):
                await asyncio.sleep(RETRY_SECONDS)

    async def record_once(self, batch_id: str, number: int, content: bytes, *, ok: bool) -> bool:
        """Record the answer of a line; return whether it is the line's first.

        Raises:
            VolumeFull: the volume has no room.
            OSError: the volume fails.
        """
        answer = _Unrecorded(number, content, ok)
        self._waiting[batch_id].append(answer)
        self._wake.set()
        return await answer.recorded

    async def run(self) -> None:
        """Record what waits, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for batch_id in list(self._waiting):
                await self._record_batch(batch_id)

    async def forget(self, batch_id: str) -> None:
        """Close the segment of a batch."""
        async with self._appending:
            segment = self._segments.pop(batch_id, None)
            if segment is not None:
                await asyncio.to_thread(segment.close)

    async def keep(self, batch_ids: Set[str]) -> None:
        """Close the segments of all other batches: an open one keeps its room on the disk after its deletion."""
        for batch_id in self.open_batches - batch_ids:
            await self.forget(batch_id)

    @property
    def open_batches(self) -> Set[str]:
        """Batches whose segment is open."""
        return set(self._segments)

    async def _record_batch(self, batch_id: str) -> None:
        group = [each for each in self._waiting.pop(batch_id) if not each.recorded.cancelled()]
        while group:
            number = _fitting(group)
            now, group = group[:number], group[number:]
            try:
                first = await self._record_group(batch_id, now)
            except (VolumeFull, OSError) as error:
                log.warning("%d answers are not recorded: %s", len(now), error)
                for each in now:
                    if not each.recorded.done():
                        each.recorded.set_exception(error)
                continue
            for each in now:
                end = ("Output" if each.ok else "Error") if each.number in first else "Discarded"
                self.recorded[end] += 1
                if not each.recorded.done():
                    each.recorded.set_result(each.number in first)

    async def _record_group(self, batch_id: str, group: list[_Unrecorded]) -> set[int]:
        async with self._appending:
            answers = await asyncio.to_thread(self._append, batch_id, group)
        while True:
            try:
                return set(await self._store.answer(batch_id, answers))
            except StoreUnavailable as error:
                log.warning("%d answers wait to be recorded: %s", len(group), error)
                await asyncio.sleep(RETRY_SECONDS)

    def _append(self, batch_id: str, group: list[_Unrecorded]) -> list[Answer]:
        segment = self._segments.get(batch_id)
        if segment is None:
            segment = self._segments[batch_id] = self._payloads.segment(batch_id, self._owner)
        offsets = segment.append([each.content for each in group])
        return [
            Answer(each.number, segment.name, offset, len(each.content), each.ok)
            for each, offset in zip(group, offsets, strict=True)
        ]


def _fitting(group: list[_Unrecorded]) -> int:
    """Return how many of the first answers of a group are written in one go: one at least."""
    sizes = accumulate(len(each.content) for each in group[:MAX_GROUP])
    return max(1, sum(size <= MAX_GROUP_BYTES for size in sizes))
