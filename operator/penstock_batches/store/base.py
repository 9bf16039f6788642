"""`Store`: what a backend keeps, and the guarantees that the rest of the service builds on.

- A line is leased to one owner at a time; a lease that is not renewed ends by itself.
- A line has one answer: the first that is recorded. Answers are recorded while the batch is in progress, and never after.
- A write that returned survives a kill of the service or of the backend.
- Adding lines again, and writing a batch again at another revision, changes nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock_batches.records import Answer, BatchJob, Counts, File, Line, Purpose


class Store(Protocol):
    """A backend. Every method raises `StoreUnavailable` if the backend cannot be reached or written."""

    async def open(self) -> None:
        """Connect, and make what is missing."""

    async def close(self) -> None:
        """Disconnect."""

    async def add_file(self, file: File) -> None:
        """Add a file, or replace the one with its id."""

    async def file(self, file_id: str) -> File | None:
        """Return a file."""

    async def files(
        self,
        tenant: str,
        after: File | None,
        limit: int,
        *,
        newest_first: bool = True,
        purpose: Purpose | None = None,
    ) -> list[File]:
        """Return files of a tenant by creation, from the one after `after`; those of `purpose` if it is set."""

    async def delete_file(self, file_id: str) -> None:
        """Remove a file."""

    async def expired_files(self, now: float, limit: int, skip: int = 0) -> list[File]:
        """Return files whose time is over, by their end and id, without the first `skip`."""

    async def add_batch(self, batch: BatchJob) -> None:
        """Add a batch."""

    async def batch(self, batch_id: str) -> BatchJob | None:
        """Return a batch."""

    async def batches(
        self, tenant: str, after: BatchJob | None, limit: int, skip: int = 0
    ) -> list[BatchJob]:
        """Return batches of a tenant, the newest first, from the one after `after`, without the first `skip`."""

    async def ended_batches(self, before: float, limit: int) -> list[BatchJob]:
        """Return batches that are over and whose window ended until Unix time `before`, by the window's end."""

    async def delete_batch(self, batch_id: str) -> None:
        """Remove the record of a batch that is over; an unknown one is ignored."""

    async def active(self) -> list[BatchJob]:
        """Return every batch that is not over, the one that expires first in front."""

    async def write(self, batch: BatchJob) -> BatchJob:
        """Write a batch that was read at its revision; return it with its new one.

        Raises:
            StateConflict: the batch has another revision.
        """

    async def claim(self, batch_id: str, owner: str, seconds: float) -> bool:
        """Take or renew the claim to validate or finalize a batch, or end it after 0 seconds; return whether `owner` has it."""

    async def add_lines(self, batch_id: str, lines: Sequence[Line]) -> None:
        """Add lines, ascending; those that are there already stay as they are."""

    async def set_total(self, batch_id: str, total: int) -> None:
        """Set the number of lines of a batch."""

    async def counts(self, batch_id: str) -> Counts:
        """Return the counts of a batch."""

    async def lease(self, batch_id: str, owner: str, limit: int, seconds: float) -> list[Line]:
        """Lease up to `limit` lines: those whose lease has ended, then pending ones in order."""

    async def renew(self, batch_id: str, owner: str, lines: Sequence[Line], seconds: float) -> None:
        """Extend the leases that `owner` still has."""

    async def release(self, batch_id: str, owner: str, lines: Sequence[Line]) -> None:
        """Make leased lines pending again."""

    async def answer(self, batch_id: str, answers: Sequence[Answer]) -> list[int]:
        """Record answers; return the numbers of the lines that had none and whose batch takes answers."""

    async def answers(self, batch_id: str, numbers: Sequence[int]) -> list[Answer]:
        """Return the recorded answers of the lines `numbers`, which ascend."""

    async def forget_lines(self, batch_id: str) -> None:
        """Remove the lines and answers of a batch that has ended; its record, counts and claim stay."""
