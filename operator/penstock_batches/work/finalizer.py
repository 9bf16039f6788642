"""`Finalizer`: writes the output and error files of a batch that takes no more answers.

Nothing changes any more in what it reads, so an interrupted run begins again and writes the same.
"""

import asyncio
import contextlib
import time
from typing import Final

import msgspec

from penstock_batches import transitions
from penstock_batches.errors import StateConflict
from penstock_batches.payloads import Part, Payloads, SegmentReader
from penstock_batches.records import Answer, BatchJob, Counts, File, Line, Purpose, Status
from penstock_batches.results import CANCELLED, EXPIRED, fault_line
from penstock_batches.store.base import Store
from penstock_batches.work.intake import LineReader

DAY_SECONDS: Final = 86_400.0


class _Named(msgspec.Struct):
    custom_id: str


_NAMED: Final = msgspec.json.Decoder(_Named)


class _Files:
    """The two files of a batch while they are written. Blocks on the disk."""

    def __init__(self, payloads: Payloads, batch: BatchJob) -> None:
        self._batch = batch
        self._payloads = payloads
        self.output = payloads.part()
        self.errors = payloads.part()
        self._rest = CANCELLED if batch.status is Status.CANCELLING else EXPIRED
        self.completed = 0
        self.failed = 0

    def write(
        self, group: list[tuple[Line, bytes]], answers: list[Answer], reader: SegmentReader
    ) -> None:
        """Write the answers of a group of lines, and a fault for each line without one."""
        by_number = {answer.number: answer for answer in answers}
        for line, content in group:
            answer = by_number.get(line.number)
            if answer is None:
                name = _custom_id(content)
                self.errors.write(fault_line(self._batch.id, line.number, name, self._rest))
                continue
            part = self.output if answer.ok else self.errors
            part.write(reader.read(answer.segment, answer.offset, answer.length))
            self.completed += answer.ok
            self.failed += not answer.ok

    def commit(self, part: Part, file_id: str) -> bool:
        """Commit a file that is not empty."""
        if not part.size:
            return False
        part.commit(file_id)
        return True

    def discard(self) -> None:
        """Remove what is not committed."""
        self.output.discard()
        self.errors.discard()


class Finalizer:
    """Ends batches."""

    def __init__(self, store: Store, payloads: Payloads, file_days: float) -> None:
        self._store = store
        self._payloads = payloads
        self._file_seconds = file_days * DAY_SECONDS

    async def finalize(self, batch: BatchJob) -> None:
        """Write the files of `batch`, and end it.

        Raises:
            StateConflict: another replica ended it and may have removed what the files are written from.
            StoreUnavailable: the store is away; finalize again.
            VolumeFull: the volume has no room for the files; finalize again.
        """
        counts = Counts()
        output = errors = None
        if batch.in_progress_at is not None:
            files = _Files(self._payloads, batch)
            try:
                total = await self._write(batch, files)
                counts = Counts(total, files.completed, files.failed)
                await self._compare(batch, counts)
                output = await self._add(batch, files, files.output, "output")
                errors = await self._add(batch, files, files.errors, "error")
            finally:
                await asyncio.shield(asyncio.to_thread(files.discard))
        with contextlib.suppress(StateConflict):
            await self._store.write(transitions.ended(batch, output, errors, counts, time.time()))
        await self.forget(batch.id)

    async def forget(self, batch_id: str) -> None:
        """Remove the lines and answers of a batch that has ended."""
        await self._store.forget_lines(batch_id)
        await asyncio.to_thread(self._payloads.forget_answers, batch_id)

    async def _write(self, batch: BatchJob, files: _Files) -> int:
        total = 0
        reader = LineReader(self._payloads.path(batch.input_file_id))
        with self._payloads.segments(batch.id) as segments:
            while (group := await asyncio.to_thread(reader.group)) is not None:
                numbers = [line.number for line, _ in group]
                answers = await self._store.answers(batch.id, numbers)
                await asyncio.to_thread(files.write, group, answers, segments)
                total += len(group)
        return total

    async def _compare(self, batch: BatchJob, written: Counts) -> None:
        recorded = await self._store.counts(batch.id)
        current = await self._store.batch(batch.id)
        whole = (written.completed, written.failed) == (recorded.completed, recorded.failed)
        if current is None or current.revision != batch.revision or not whole:
            raise StateConflict(f"batch {batch.id} changed while its files were written")

    async def _add(self, batch: BatchJob, files: _Files, part: Part, kind: str) -> str | None:
        file_id = f"file-{batch.id.removeprefix('batch_')}-{kind}"
        size, now = part.size, time.time()
        if not await asyncio.to_thread(files.commit, part, file_id):
            return None
        seconds = batch.output_seconds or self._file_seconds
        name = f"{batch.id}_{kind}.jsonl"
        purpose = Purpose.INFER if batch.infer else Purpose.BATCH_OUTPUT
        record = File(file_id, batch.tenant, purpose, name, size, now, expires_at=now + seconds)
        await self._store.add_file(record)
        return file_id


def _custom_id(content: bytes) -> str | None:
    try:
        return _NAMED.decode(content).custom_id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
