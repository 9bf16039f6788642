"""`SqliteStore`: the store in one SQLite file in WAL mode, on the service's volume.

One process has the file at a time: it locks a file next to it, so a lease of an earlier process ends when the next one opens
the store. All statements run on one thread, off the event loop.
"""

import asyncio
import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from penstock_batches.errors import StateConflict, StoreUnavailable
from penstock_batches.records import Answer, BatchJob, Counts, File, Line, Purpose, Status
from penstock_batches.transitions import over

T = TypeVar("T")
LOCK_SECONDS: Final = 60.0
"""Time to wait for an earlier process to end."""
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, purpose TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL,
  record BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS files_of_tenant ON files (tenant, created_at, id);
CREATE INDEX IF NOT EXISTS files_by_end ON files (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS batches (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL,
  status TEXT NOT NULL, ended INTEGER NOT NULL, revision INTEGER NOT NULL, record BLOB NOT NULL,
  total INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
  claimed_by TEXT, claimed_until REAL);
CREATE INDEX IF NOT EXISTS batches_of_tenant ON batches (tenant, created_at, id);
CREATE INDEX IF NOT EXISTS active_batches ON batches (expires_at) WHERE ended = 0;
CREATE INDEX IF NOT EXISTS ended_batches ON batches (expires_at) WHERE ended = 1;
CREATE TABLE IF NOT EXISTS lines (
  batch TEXT NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'Pending', owner TEXT, leased_until REAL,
  segment TEXT, answer_offset INTEGER, answer_length INTEGER, ok INTEGER,
  PRIMARY KEY (batch, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_lines ON lines (batch, state, number) WHERE state <> 'Answered';
"""
_FILE: Final = msgspec.json.Decoder(File)
_BATCH: Final = msgspec.json.Decoder(BatchJob)


class SqliteStore:
    """The store in the folder `folder`; see `Store`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "store")
        self._closing = threading.Event()
        self._lock: int | None = None
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Lock and open the file.

        Raises:
            StoreUnavailable: another process has it, or the disk fails.
        """
        await self._run(self._open)

    async def close(self) -> None:
        """Close the file and release the lock; a wait for the lock ends."""
        self._closing.set()
        await self._run(self._close)
        self._thread.shutdown()

    async def add_file(self, file: File) -> None:
        """See `Store`."""
        row = (
            file.id,
            file.listing,
            file.purpose,
            file.created_at,
            file.expires_at,
            msgspec.json.encode(file),
        )
        await self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

    async def file(self, file_id: str) -> File | None:
        """See `Store`."""
        rows = await self._rows("SELECT record FROM files WHERE id = ?", file_id)
        return _FILE.decode(rows[0][0]) if rows else None

    async def files(
        self,
        tenant: str,
        after: File | None,
        limit: int,
        *,
        newest_first: bool = True,
        purpose: Purpose | None = None,
    ) -> list[File]:
        """See `Store`."""
        beyond, order = ("<", "DESC") if newest_first else (">", "ASC")
        where = f"AND (created_at, id) {beyond} (?, ?)" if after else ""
        bound: tuple[object, ...] = (after.created_at, after.id) if after else ()
        if purpose is not None:
            where, bound = f"{where} AND purpose = ?", (*bound, purpose)
        rows = await self._rows(
            f"SELECT record FROM files WHERE tenant = ? {where}"  # noqa: S608  constants
            f" ORDER BY created_at {order}, id {order} LIMIT ?",
            tenant, *bound, limit,
        )  # fmt: skip
        return [_FILE.decode(row[0]) for row in rows]

    async def delete_file(self, file_id: str) -> None:
        """See `Store`."""
        await self._write("DELETE FROM files WHERE id = ?", (file_id,))

    async def expired_files(self, now: float, limit: int, skip: int = 0) -> list[File]:
        """See `Store`."""
        rows = await self._rows(
            "SELECT record FROM files WHERE expires_at <= ? ORDER BY expires_at, id LIMIT ? OFFSET ?",
            now, limit, skip,
        )  # fmt: skip
        return [_FILE.decode(row[0]) for row in rows]

    async def add_batch(self, batch: BatchJob) -> None:
        """See `Store`."""
        await self._write(
            "INSERT INTO batches (id, tenant, created_at, expires_at, status, ended, revision, record)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (batch.id, batch.listing, batch.created_at, batch.expires_at, batch.status,
             over(batch), batch.revision, msgspec.json.encode(batch)),
        )  # fmt: skip

    async def batch(self, batch_id: str) -> BatchJob | None:
        """See `Store`."""
        rows = await self._rows("SELECT record FROM batches WHERE id = ?", batch_id)
        return _BATCH.decode(rows[0][0]) if rows else None

    async def batches(
        self, tenant: str, after: BatchJob | None, limit: int, skip: int = 0
    ) -> list[BatchJob]:
        """See `Store`."""
        where = "AND (created_at, id) < (?, ?)" if after else ""
        bound = (after.created_at, after.id) if after else ()
        rows = await self._rows(
            f"SELECT record FROM batches WHERE tenant = ? {where}"  # noqa: S608  constants
            " ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?",
            tenant, *bound, limit, skip,
        )  # fmt: skip
        return [_BATCH.decode(row[0]) for row in rows]

    async def ended_batches(self, before: float, limit: int) -> list[BatchJob]:
        """See `Store`."""
        rows = await self._rows(
            "SELECT record FROM batches WHERE ended = 1 AND expires_at <= ? ORDER BY expires_at LIMIT ?",
            before, limit,
        )  # fmt: skip
        return [_BATCH.decode(row[0]) for row in rows]

    async def delete_batch(self, batch_id: str) -> None:
        """See `Store`."""
        await self._write("DELETE FROM batches WHERE id = ? AND ended = 1", (batch_id,))

    async def active(self) -> list[BatchJob]:
        """See `Store`."""
        rows = await self._rows("SELECT record FROM batches WHERE ended = 0 ORDER BY expires_at")
        return [_BATCH.decode(row[0]) for row in rows]

    async def write(self, batch: BatchJob) -> BatchJob:
        """See `Store`."""
        written = replace(batch, revision=batch.revision + 1)
        changed = await self._write(
            "UPDATE batches SET status = ?, ended = ?, revision = ?, record = ? WHERE id = ? AND revision = ?",
            (written.status, over(written), written.revision, msgspec.json.encode(written),
             batch.id, batch.revision),
        )  # fmt: skip
        if not changed:
            raise StateConflict(f"batch {batch.id} is not at revision {batch.revision} any more")
        return written

    async def claim(self, batch_id: str, owner: str, seconds: float) -> bool:
        """See `Store`."""
        now = time.time()
        changed = await self._write(
            "UPDATE batches SET claimed_by = ?, claimed_until = ?"
            " WHERE id = ? AND (claimed_by IS NULL OR claimed_by = ? OR claimed_until <= ?)",
            (owner, now + seconds, batch_id, owner, now),
        )
        return changed > 0

    async def add_lines(self, batch_id: str, lines: Sequence[Line]) -> None:
        """See `Store`."""
        rows = [(batch_id, line.number, line.offset, line.length) for line in lines]
        sql = "INSERT OR IGNORE INTO lines (batch, number, offset, length) VALUES (?, ?, ?, ?)"
        await self._transact(lambda database: database.executemany(sql, rows))

    async def set_total(self, batch_id: str, total: int) -> None:
        """See `Store`."""
        await self._write("UPDATE batches SET total = ? WHERE id = ?", (total, batch_id))

    async def counts(self, batch_id: str) -> Counts:
        """See `Store`."""
        rows = await self._rows(
            "SELECT total, completed, failed FROM batches WHERE id = ?", batch_id
        )
        return Counts(*rows[0]) if rows else Counts()

    async def lease(self, batch_id: str, owner: str, limit: int, seconds: float) -> list[Line]:
        """See `Store`."""

        def run(database: sqlite3.Connection) -> list[Line]:
            if not _in_progress(database, batch_id):
                return []
            now = time.time()
            rows = database.execute(
                "SELECT number, offset, length FROM lines"
                " WHERE batch = ? AND state = 'Leased' AND leased_until <= ? ORDER BY number LIMIT ?",
                (batch_id, now, limit),
            ).fetchall()
            rows += database.execute(
                "SELECT number, offset, length FROM lines"
                " WHERE batch = ? AND state = 'Pending' ORDER BY number LIMIT ?",
                (batch_id, limit - len(rows)),
            ).fetchall()
            database.executemany(
                "UPDATE lines SET state = 'Leased', owner = ?, leased_until = ? WHERE batch = ? AND number = ?",
                [(owner, now + seconds, batch_id, row[0]) for row in rows],
            )
            return [Line(*row) for row in rows]

        return await self._transact(run)

    async def renew(self, batch_id: str, owner: str, lines: Sequence[Line], seconds: float) -> None:
        """See `Store`."""
        until = time.time() + seconds
        rows = [(until, batch_id, line.number, owner) for line in lines]
        sql = (
            "UPDATE lines SET leased_until = ?"
            " WHERE batch = ? AND number = ? AND owner = ? AND state = 'Leased'"
        )
        await self._transact(lambda database: database.executemany(sql, rows))

    async def release(self, batch_id: str, owner: str, lines: Sequence[Line]) -> None:
        """See `Store`."""
        rows = [(batch_id, line.number, owner) for line in lines]
        sql = (
            "UPDATE lines SET state = 'Pending', owner = NULL"
            " WHERE batch = ? AND number = ? AND owner = ? AND state = 'Leased'"
        )
        await self._transact(lambda database: database.executemany(sql, rows))

    async def answer(self, batch_id: str, answers: Sequence[Answer]) -> list[int]:
        """See `Store`."""

        def run(database: sqlite3.Connection) -> list[int]:
            if not _takes_answers(database, batch_id):
                return []
            first, ok = [], 0
            for answer in answers:
                changed = database.execute(
                    "UPDATE lines SET state = 'Answered', segment = ?, answer_offset = ?, answer_length = ?, ok = ?"
                    " WHERE batch = ? AND number = ? AND state <> 'Answered'",
                    (answer.segment, answer.offset, answer.length, answer.ok, batch_id, answer.number),
                ).rowcount  # fmt: skip
                if changed:
                    first.append(answer.number)
                    ok += answer.ok
            database.execute(
                "UPDATE batches SET completed = completed + ?, failed = failed + ? WHERE id = ?",
                (ok, len(first) - ok, batch_id),
            )
            return first

        return await self._transact(run)

    async def answers(self, batch_id: str, numbers: Sequence[int]) -> list[Answer]:
        """See `Store`."""
        rows = await self._rows(
            "SELECT number, segment, answer_offset, answer_length, ok FROM lines"
            " WHERE batch = ? AND number IN (SELECT value FROM json_each(?)) AND state = 'Answered'"
            " ORDER BY number",
            batch_id, json.dumps(list(numbers)),
        )  # fmt: skip
        return [
            Answer(number, segment, offset, length, bool(ok))
            for number, segment, offset, length, ok in rows
        ]

    async def forget_lines(self, batch_id: str) -> None:
        """See `Store`."""
        await self._write("DELETE FROM lines WHERE batch = ?", (batch_id,))

    async def _run(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"SQLite in {self._folder}: {error}") from error

    async def _transact(self, statements: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with _transaction(self._opened()) as database:
                return statements(database)

        return await self._run(run)

    async def _write(self, sql: str, row: tuple[object, ...]) -> int:
        return await self._transact(lambda database: database.execute(sql, row).rowcount)

    async def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return await self._run(lambda: self._opened().execute(sql, values).fetchall())

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            raise StoreUnavailable(f"SQLite in {self._folder} is closed")
        return self._database

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._folder / "store.lock", self._closing)
        try:
            self._database = sqlite3.connect(
                self._folder / "store.sqlite", isolation_level=None, check_same_thread=False
            )
            _prepare(self._database)
        except BaseException:  # a retry takes the lock again
            self._close()
            raise

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.executescript(SCHEMA)
    # the lock proves that no earlier owner lives
    database.execute("UPDATE lines SET state = 'Pending', owner = NULL WHERE state = 'Leased'")
    database.execute("UPDATE batches SET claimed_by = NULL WHERE ended = 0")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _status(database: sqlite3.Connection, batch_id: str) -> str:
    row = database.execute("SELECT status FROM batches WHERE id = ?", (batch_id,)).fetchone()
    return row[0] if row else ""


def _in_progress(database: sqlite3.Connection, batch_id: str) -> bool:
    return _status(database, batch_id) == Status.IN_PROGRESS


def _takes_answers(database: sqlite3.Connection, batch_id: str) -> bool:
    return _status(database, batch_id) in (Status.VALIDATING, Status.IN_PROGRESS)


def _locked(path: Path, closing: threading.Event) -> int:
    """Return a locked file; the kernel releases it when the process ends. The wait for it ends with `closing`."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError as error:
            if closing.wait(0.1) or time.monotonic() > end:
                os.close(lock)
                raise StoreUnavailable(
                    f"{path} is locked by another process: a store on SQLite has one replica"
                ) from error
