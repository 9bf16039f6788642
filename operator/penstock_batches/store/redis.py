"""`RedisStore`: the store in Redis or Valkey, version 6.2 or later.

The lines of a batch are a stream whose entries have the lines' numbers as ids, and the dispatchers are its consumer group:
a lease is a pending entry, and its age is the entry's idle time. Every key has the same hash tag, so that a cluster of Redis
keeps them on one node and each script is atomic there.
"""

import logging
import ssl
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from penstock_batches.errors import StateConflict, StoreUnavailable
from penstock_batches.records import Answer, BatchJob, Counts, File, Line, Purpose
from penstock_batches.store import scripts
from penstock_batches.transitions import over

log = logging.getLogger(__name__)

T = TypeVar("T")
GROUP: Final = "dispatchers"
TIMEOUT_SECONDS: Final = 5.0
_FILE: Final = msgspec.json.Decoder(File)
_BATCH: Final = msgspec.json.Decoder(BatchJob)
_ANSWER: Final = msgspec.json.Decoder(Answer)


class RedisTls(NamedTuple):
    """Files in PEM of a Redis with TLS."""

    ca_file: Path | None = None
    """None: the CAs of the system."""
    cert_file: Path | None = None
    """Certificate of the client, where the server requires one."""
    key_file: Path | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the connection; the server is always verified."""
        files = {
            "ssl_ca_certs": self.ca_file,
            "ssl_certfile": self.cert_file,
            "ssl_keyfile": self.key_file,
        }
        verified = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
        return verified | {name: str(file) for name, file in files.items() if file is not None}


class RedisStore:
    """The store under a prefix of `namespace`; see `Store`."""

    def __init__(self, url: str, namespace: str, tls: RedisTls | None = None) -> None:
        """`url` is `redis://` or, with TLS, `rediss://`, with user, password and database."""
        self._redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),
            health_check_interval=15,
            **((tls or RedisTls()).options() if url.startswith("rediss://") else {}),
        )
        self._prefix = f"{{penstock:{namespace}}}:"
        script = self._redis.register_script
        self._add_batch = script(scripts.ADD_BATCH)
        self._write = script(scripts.WRITE)
        self._claim = script(scripts.CLAIM)
        self._add_lines = script(scripts.ADD_LINES)
        self._lease = script(scripts.LEASE)
        self._set_idle = script(scripts.SET_IDLE)
        self._answer = script(scripts.ANSWER)

    async def open(self) -> None:
        """Connect, and warn where the server would lose what it has accepted.

        Raises:
            StoreUnavailable: the server cannot be reached or refuses the user.
        """
        await _sent(self._redis.ping())
        try:
            info = await self._redis.info()
        except RedisError as error:  # an ACL may forbid it
            log.info("Redis does not say how it persists: %s", error)
            return
        if not info.get("aof_enabled"):
            log.warning(
                "Redis has no append-only file: a restart loses batches; set appendonly yes"
            )
        if info.get("maxmemory_policy", "noeviction") != "noeviction":
            log.warning(
                "Redis evicts keys when its memory is full: set maxmemory-policy noeviction"
            )

    async def close(self) -> None:
        """Disconnect."""
        await self._redis.aclose()

    async def add_file(self, file: File) -> None:
        """See `Store`."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(self._key("file", file.id), msgspec.json.encode(file))
            for key in self._file_lists(file):
                pipe.zadd(key, {file.id: file.created_at})
            if file.expires_at is not None:
                pipe.zadd(self._key("file-ends"), {file.id: file.expires_at})
            await _sent(pipe.execute())

    async def file(self, file_id: str) -> File | None:
        """See `Store`."""
        record = await _sent(self._redis.get(self._key("file", file_id)))
        return _FILE.decode(record) if record else None

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
        kind = "files" if purpose is None else f"files-{purpose.value}"
        ids = await self._page(
            kind, tenant, after.id if after else None, limit, newest_first=newest_first
        )
        if not ids:
            return []
        records = await _sent(self._redis.mget([self._key("file", file_id) for file_id in ids]))
        return [_FILE.decode(record) for record in records if record]

    async def delete_file(self, file_id: str) -> None:
        """See `Store`."""
        file = await self.file(file_id)
        if file is None:
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(self._key("file", file_id))
            for key in self._file_lists(file):
                pipe.zrem(key, file_id)
            pipe.zrem(self._key("file-ends"), file_id)
            await _sent(pipe.execute())

    async def expired_files(self, now: float, limit: int, skip: int = 0) -> list[File]:
        """See `Store`."""
        ids = await _sent(
            self._redis.zrangebyscore(self._key("file-ends"), "-inf", now, start=skip, num=limit)
        )
        files = [await self.file(file_id.decode()) for file_id in ids]
        return [file for file in files if file is not None]

    async def add_batch(self, batch: BatchJob) -> None:
        """See `Store`."""
        await _sent(
            self._add_batch(
                [self._batch(batch.id), self._key("batches", batch.listing), self._key("active")],
                [
                    batch.id,
                    msgspec.json.encode(batch),
                    batch.status.value,
                    batch.created_at,
                    batch.expires_at,
                ],
            )
        )

    async def batch(self, batch_id: str) -> BatchJob | None:
        """See `Store`."""
        record = await _sent(self._redis.hget(self._batch(batch_id), "record"))
        return _BATCH.decode(record) if record else None

    async def batches(
        self, tenant: str, after: BatchJob | None, limit: int, skip: int = 0
    ) -> list[BatchJob]:
        """See `Store`."""
        ids = await self._page(
            "batches", tenant, after.id if after else None, limit, newest_first=True, skip=skip
        )
        return await self._batches(ids)

    async def ended_batches(self, before: float, limit: int) -> list[BatchJob]:
        """See `Store`."""
        ids = await _sent(
            self._redis.zrangebyscore(self._key("ended"), "-inf", before, start=0, num=limit)
        )
        return await self._batches([batch_id.decode() for batch_id in ids])

    async def delete_batch(self, batch_id: str) -> None:
        """See `Store`."""
        batch = await self.batch(batch_id)
        if batch is None or not over(batch):
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(self._batch(batch_id))
            pipe.zrem(self._key("batches", batch.listing), batch_id)
            pipe.zrem(self._key("ended"), batch_id)
            await _sent(pipe.execute())

    async def active(self) -> list[BatchJob]:
        """See `Store`."""
        ids = await _sent(self._redis.zrange(self._key("active"), 0, -1))
        return await self._batches([batch_id.decode() for batch_id in ids])

    async def write(self, batch: BatchJob) -> BatchJob:
        """See `Store`; the same write again is no conflict."""
        written = replace(batch, revision=batch.revision + 1)
        changed = await _sent(
            self._write(
                [self._batch(batch.id), self._key("active"), self._key("ended")],
                [
                    batch.id,
                    batch.revision,
                    msgspec.json.encode(written),
                    written.status.value,
                    int(over(written)),
                    written.expires_at,
                ],
            )
        )
        if not changed:
            raise StateConflict(f"batch {batch.id} is not at revision {batch.revision} any more")
        return written

    async def claim(self, batch_id: str, owner: str, seconds: float) -> bool:
        """See `Store`; the server's clock ends a claim."""
        key = self._key("claim", batch_id)
        return bool(await _sent(self._claim([key], [owner, _milliseconds(seconds)])))

    async def add_lines(self, batch_id: str, lines: Sequence[Line]) -> None:
        """See `Store`."""
        rows = [part for line in lines for part in (line.number, line.offset, line.length)]
        await _sent(self._add_lines([self._lines(batch_id)], [GROUP, *rows]))

    async def set_total(self, batch_id: str, total: int) -> None:
        """See `Store`."""
        await _sent(self._redis.hset(self._batch(batch_id), "total", total))

    async def counts(self, batch_id: str) -> Counts:
        """See `Store`."""
        fields = ["total", "completed", "failed"]
        values = await _sent(self._redis.hmget(self._batch(batch_id), fields))
        return Counts(*(int(value or 0) for value in values))

    async def lease(self, batch_id: str, owner: str, limit: int, seconds: float) -> list[Line]:
        """See `Store`; the server's clock ends a lease."""
        keys = [self._batch(batch_id), self._lines(batch_id)]
        entries = await _sent(self._lease(keys, [GROUP, owner, limit, _milliseconds(seconds)]))
        return [
            Line(int(entry_id.split(b"-")[0]), int(fields[1]), int(fields[3]))
            for entry_id, fields in entries
        ]

    async def renew(
        self,
        batch_id: str,
        owner: str,
        lines: Sequence[Line],
        seconds: float,  # noqa: ARG002  the next owner states how long a lease lasts
    ) -> None:
        """See `Store`."""
        await self._idle(batch_id, owner, lines, 0)

    async def release(self, batch_id: str, owner: str, lines: Sequence[Line]) -> None:
        """See `Store`: the entries are as idle as those of an owner that has ended."""
        await self._idle(batch_id, owner, lines, 10**9)

    async def answer(self, batch_id: str, answers: Sequence[Answer]) -> list[int]:
        """See `Store`."""
        rows: list[bytes | int] = []
        for answer in answers:
            rows += (answer.number, msgspec.json.encode(answer), int(answer.ok))
        keys = [self._batch(batch_id), self._key("answers", batch_id), self._lines(batch_id)]
        return cast("list[int]", await _sent(self._answer(keys, [GROUP, *rows])))

    async def answers(self, batch_id: str, numbers: Sequence[int]) -> list[Answer]:
        """See `Store`."""
        if not numbers:
            return []
        fields = [str(number) for number in numbers]
        records = await _sent(self._redis.hmget(self._key("answers", batch_id), fields))
        return [_ANSWER.decode(record) for record in records if record]

    async def forget_lines(self, batch_id: str) -> None:
        """See `Store`."""
        await _sent(self._redis.delete(self._lines(batch_id), self._key("answers", batch_id)))

    async def _idle(
        self, batch_id: str, owner: str, lines: Sequence[Line], milliseconds: int
    ) -> None:
        arguments: list[str | int] = [GROUP, owner, milliseconds, *(line.number for line in lines)]
        await _sent(self._set_idle([self._lines(batch_id)], arguments))

    async def _page(  # noqa: PLR0913  a page of any list
        self,
        kind: str,
        tenant: str,
        after: str | None,
        limit: int,
        *,
        newest_first: bool,
        skip: int = 0,
    ) -> list[str]:
        key, start = self._key(kind, tenant), 0
        if after is not None:
            ranked = self._redis.zrevrank if newest_first else self._redis.zrank
            rank = await _sent(ranked(key, after))
            start = 0 if rank is None else rank + 1
        start += skip
        ids = await _sent(self._redis.zrange(key, start, start + limit - 1, desc=newest_first))
        return [each.decode() for each in ids]

    async def _batches(self, ids: list[str]) -> list[BatchJob]:
        if not ids:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for batch_id in ids:
                pipe.hget(self._batch(batch_id), "record")
            records = await _sent(pipe.execute())
        return [_BATCH.decode(record) for record in records if record]

    def _file_lists(self, file: File) -> tuple[str, str]:
        purpose = f"files-{file.purpose.value}"
        return self._key("files", file.listing), self._key(purpose, file.listing)

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def _batch(self, batch_id: str) -> str:
        return self._key("batch", batch_id)

    def _lines(self, batch_id: str) -> str:
        return self._key("lines", batch_id)


async def _sent(command: Awaitable[Any]) -> Any:  # what the command returns
    try:
        return await command
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(f"Redis: {error}") from error


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))
