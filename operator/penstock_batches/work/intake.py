"""`Intake`: reads the input of a batch line by line, and records what can be served and what cannot."""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from penstock_batches import requests, transitions
from penstock_batches.dispatch.recorder import AnswerRecorder
from penstock_batches.errors import StateConflict
from penstock_batches.payloads import Payloads
from penstock_batches.pools import Pools
from penstock_batches.records import BatchJob, Fault, Line
from penstock_batches.requests import BadLine
from penstock_batches.results import EXPIRED, fault_line
from penstock_batches.store.base import Store

GROUP_LINES: Final = 500
GROUP_BYTES: Final = 8 * 2**20
"""Lines that are read in one go: neither a long file nor long lines hold a thread or fill the memory."""
MAX_READ_BYTES: Final = requests.MAX_LINE_BYTES + len("\r\n")
"""The longest line that is served, with its end: padding makes a longer one too long as well, because a dispatcher reads it whole."""
MAX_REPORTED_FAULTS: Final = 100
"""Faults in the batch itself; the error file has all of them."""


class LineReader:
    """Reads a file of lines in groups; blank lines are numbered and left out.

    The file is open during a group only, so that a cancelled validation leaves none open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._offset = 0
        self.blank_lines = 0
        """Those that were read so far."""

    def group(self) -> list[tuple[Line, bytes]] | None:
        """Return the next lines with their content, the first MAX_READ_BYTES of it; empty if all are blank, None at the end.

        Blocks on the disk.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        lines: list[tuple[Line, bytes]] = []
        last_number, last_offset = self._number + GROUP_LINES, self._offset + GROUP_BYTES
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            while self._number < last_number and self._offset < last_offset:
                content = stream.readline(MAX_READ_BYTES)
                if not content:
                    return lines or None
                start = self._offset
                length, blank = _read_rest(stream, content)
                self._number += 1
                self._offset += length
                self.blank_lines += blank
                if not blank:
                    lines.append((Line(self._number, start, length), content))
        return lines


def _read_rest(stream: BinaryIO, content: bytes) -> tuple[int, bool]:
    """Read what is left of the line that begins with `content`; return its whole length and whether it is blank."""
    length, blank = len(content), not content.strip()
    while content and not content.endswith(b"\n"):
        content = stream.readline(MAX_READ_BYTES)
        length += len(content)
        blank = blank and not content.strip()
    return length, blank


class Check:
    """What the lines of a batch have in common: one model, and a `custom_id` each."""

    def __init__(self, endpoint: str, models: tuple[str, ...]) -> None:
        self._endpoint = endpoint
        self._models = models
        self._seen: set[bytes] = set()
        self.model: str | None = None
        """Model of the first line that can be served."""

    def fault(self, line: Line, content: bytes) -> BadLine | None:
        """Return what is wrong with the next line, if anything is."""
        if line.length > MAX_READ_BYTES:
            return requests.too_long(line.number, line.length)
        try:
            request = requests.read_request(content.strip(), line.number, self._endpoint)
        except BadLine as bad:
            return bad
        digest = hashlib.blake2b(request.custom_id.encode(), digest_size=16).digest()
        if digest in self._seen:
            return requests.duplicate(line.number, request.custom_id)
        self._seen.add(digest)
        if request.model not in self._models:
            return requests.unknown_model(line.number, request, self._models)
        if self.model is None:
            self.model = request.model
        elif request.model != self.model:
            return requests.other_model(line.number, request, self.model)
        return None

    def faults(self, group: list[tuple[Line, bytes]]) -> Iterator[tuple[Line, BadLine]]:
        """Yield the lines of a group that cannot be served."""
        for line, content in group:
            bad = self.fault(line, content)
            if bad is not None:
                yield line, bad


class Intake:
    """Validates batches; an interrupted validation begins again and changes nothing that is recorded."""

    def __init__(
        self, store: Store, payloads: Payloads, pools: Pools, recorder: AnswerRecorder
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._pools = pools
        self._recorder = recorder
        self._parsing = asyncio.Lock()
        """One group at a time: the event loop waits for each thread that parses."""

    async def validate(self, batch: BatchJob) -> None:
        """Record the lines of `batch`, and start it or fail it.

        Raises:
            StoreUnavailable: the store is away; validate again.
            VolumeFull: the volume has no room for the faults of lines; validate again.
        """
        reader = LineReader(self._payloads.path(batch.input_file_id))
        try:
            first = await asyncio.to_thread(reader.group)
        except FileNotFoundError:
            await self._fail(batch, [Fault("file_not_found", "The input file is gone.")])
            return
        with suppress(StateConflict):  # cancelled meanwhile
            await self._read(batch, reader, first)

    async def lapse(self, batch: BatchJob) -> None:
        """Fail `batch`, whose time is over before its input is validated.

        Raises:
            StateConflict: it was cancelled meanwhile.
        """
        message = "The batch expired before its input was validated."
        await self._fail(batch, [Fault(EXPIRED.code, message)])

    async def _read(
        self, batch: BatchJob, reader: LineReader, group: list[tuple[Line, bytes]] | None
    ) -> None:
        check = Check(batch.endpoint, self._pools.models)
        total, faults = 0, list[Fault]()
        while group is not None:
            total += len(group)
            if max(total, reader.blank_lines) > requests.MAX_LINES:
                await self._fail(batch, [_too_many()])
                return
            async with self._parsing:
                bad = await asyncio.to_thread(lambda lines: list(check.faults(lines)), group)
            await self._store.add_lines(batch.id, [line for line, _ in group])
            await self._reject_all(batch, bad)
            faults += [each.fault for _, each in bad]
            group = await asyncio.to_thread(reader.group)
        await self._store.set_total(batch.id, total)
        if check.model is None:
            await self._fail(batch, faults or [_empty()])
            return
        reported = tuple(faults[:MAX_REPORTED_FAULTS])
        await self._store.write(transitions.started(batch, check.model, reported, time.time()))

    async def _reject_all(self, batch: BatchJob, bad: list[tuple[Line, BadLine]]) -> None:
        """Record the faults of lines but those that an interrupted validation recorded: each write takes room."""
        numbers = [line.number for line, _ in bad]
        recorded = {each.number for each in await self._store.answers(batch.id, numbers)}
        new = [(line, each) for line, each in bad if line.number not in recorded]
        await asyncio.gather(*(self._reject(batch, line, each) for line, each in new))

    async def _reject(self, batch: BatchJob, line: Line, bad: BadLine) -> None:
        """Record the fault of a line. One with the `custom_id` of another line has none in the error file."""
        custom_id = None if bad.fault.code == requests.DUPLICATE else bad.custom_id
        text = fault_line(batch.id, line.number, custom_id, bad.fault)
        await self._recorder.record_once(batch.id, line.number, text, ok=False)

    async def _fail(self, batch: BatchJob, faults: list[Fault]) -> None:
        reported = tuple(faults[:MAX_REPORTED_FAULTS])
        await self._store.write(transitions.failed(batch, reported, time.time()))
        await self._recorder.forget(batch.id)
        await asyncio.to_thread(self._payloads.forget_answers, batch.id)
        await self._store.forget_lines(batch.id)


def _empty() -> Fault:
    return Fault("empty_file", "The batch file is empty: it must have a request in each line.")


def _too_many() -> Fault:
    message = (
        f"The batch file has more than {requests.MAX_LINES} requests or blank lines, the most that a batch may have"
        " of each: split it into several batches."
    )
    return Fault("too_many_tasks", message, requests.MAX_LINES + 1)
