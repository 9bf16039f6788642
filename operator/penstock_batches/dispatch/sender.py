"""`Sender`: sends one line to its pool until it has an answer."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

import aiohttp
import msgspec

from penstock_api import names
from penstock_api.api_keys import ApiKeyRing
from penstock_batches.config import BatchSettings
from penstock_batches.dispatch.budget import ByteBudget
from penstock_batches.dispatch.gate import TenantGate
from penstock_batches.dispatch.outcome import (
    MAX_LOSSES,
    LineVerdict,
    Refuser,
    pause_seconds,
    pod_lost,
    refuser,
    retry_after,
    verdict,
)
from penstock_batches.errors import AnswerTooLarge
from penstock_batches.payloads import Payloads
from penstock_batches.pools import Pools, trusted
from penstock_batches.records import BatchJob, Fault, Line
from penstock_batches.requests import BadLine, BatchRequest, read_request
from penstock_batches.results import PoolReply, fault_line, request_id, response_line

MAX_ANSWER_BYTES: Final = 64 * 2**20
ANSWERS_BYTES: Final = 128 * 2**20
"""Answers in memory, from their first byte until they are recorded."""
CONNECT_SECONDS: Final = 5.0
POOL_AWAY_SECONDS: Final = 5.0
_PARAMETERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


class _Credentials(NamedTuple):
    headers: dict[str, str]
    key_rate: float | None


@dataclass(slots=True)
class _Work:
    """A line that is served, and what its attempts came to."""

    batch: BatchJob
    line: Line
    gate: TenantGate
    failures: int = 0
    losses: int = 0
    pause_seconds: float = 0.0

    def lost(self, custom_id: str) -> tuple[bytes, bool] | None:
        """Count a loss of connection or engine; return the answer if the line counts as the cause."""
        self.losses += 1
        self._pause(self.losses)
        if self.losses < MAX_LOSSES:
            return None
        message = f"The connection was lost, or the engine died, {self.losses} times while this request was computed or queued."
        return self.fault(custom_id, "server_error", message)

    def refused(self, end: LineVerdict) -> None:
        """Count a response after which the line is sent again."""
        self.pause_seconds = 0.0
        if end is LineVerdict.RETRY:
            self.failures += 1
            self._pause(self.failures)

    def fault(self, custom_id: str, code: str, message: str) -> tuple[bytes, bool]:
        """Return the answer of a line that got none."""
        fault = Fault(code, message, self.line.number)
        return fault_line(self.batch.id, self.line.number, custom_id, fault), False

    def _pause(self, times: int) -> None:
        self.pause_seconds = pause_seconds(times, random.random())  # noqa: S311  spreads retries


class Sender:
    """Turns a line into its line of the output or error file."""

    def __init__(
        self,
        settings: BatchSettings,
        payloads: Payloads,
        pools: Pools,
        keys: ApiKeyRing | None,
    ) -> None:
        """Raises: BatchesConfigError: the CA file of the pools is none."""
        self._payloads = payloads
        self._pools = pools
        self._keys = keys
        timeout = aiohttp.ClientTimeout(
            total=settings.request_timeout_seconds, sock_connect=CONNECT_SECONDS
        )
        connector = aiohttp.TCPConnector(
            limit=0, ssl=trusted(settings.pool_ca_file), keepalive_timeout=10
        )
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        self._answers = ByteBudget(ANSWERS_BYTES)
        self.attempts: Counter[str] = Counter()
        """Attempts by status, or by Lost and Unreachable."""

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def serve(
        self, batch: BatchJob, line: Line, gate: TenantGate, memory: AsyncExitStack
    ) -> tuple[bytes, bool]:
        """Return the answer of a line, and whether it belongs to the output file; `memory` gets the room that the answer takes."""
        work = _Work(batch, line, gate)
        while True:
            url = self._pools.url(batch.model or "")
            if url is None:  # the pool was deleted: it may come back until the batch expires
                await asyncio.sleep(POOL_AWAY_SECONDS)
                continue
            async with gate.place(), gate.body_room(line.length), AsyncExitStack() as room:
                end = await self._try(work, url, room)
                if end is not None:
                    memory.push_async_exit(room.pop_all())
                    return end
            await gate.sleep(work.pause_seconds)

    async def _try(self, work: _Work, url: str, room: AsyncExitStack) -> tuple[bytes, bool] | None:
        """Send a line; return its answer, or None if it is sent again."""
        batch, line = work.batch, work.line
        try:
            custom_id, body = await asyncio.to_thread(self._read, batch, line)
        except BadLine as bad:
            return fault_line(batch.id, line.number, bad.custom_id, bad.fault), False
        credentials = self._credentials(batch, line)
        if credentials is None:
            gone = work.gate.keyless()
            message = "No API key of this batch's tenant is valid any more."
            return work.fault(custom_id, "invalid_api_key", message) if gone else None
        work.gate.keyed()
        try:
            reply = await self._attempt(url + batch.endpoint, body, credentials, work.gate, room)
        except AnswerTooLarge as large:
            return work.fault(custom_id, "answer_too_large", str(large))
        if reply is None:
            return work.lost(custom_id)
        end = verdict(reply.status, work.failures, reply.retry_after_seconds)
        if end is LineVerdict.OUTPUT or end is LineVerdict.ERROR:
            text = await asyncio.to_thread(response_line, batch.id, line.number, custom_id, reply)
            return text, end is LineVerdict.OUTPUT
        work.refused(end)
        return None

    def _read(self, batch: BatchJob, line: Line) -> tuple[str, bytes]:
        """Return `custom_id` and body of a line. Blocks on the disk.

        Raises:
            BadLine: it cannot be served, or the input is gone.
        """
        try:
            content = self._payloads.read(batch.input_file_id, line.offset, line.length)
        except FileNotFoundError as error:
            fault = Fault("file_not_found", "The input file of the batch is gone.", line.number)
            raise BadLine(fault, None) from error
        request = read_request(content.strip(), line.number, batch.endpoint)
        return request.custom_id, _body(request, batch)

    async def _attempt(
        self,
        url: str,
        body: bytes,
        credentials: _Credentials,
        gate: TenantGate,
        room: AsyncExitStack,
    ) -> PoolReply | None:
        """Return the response; None if connection or engine was lost after the request was sent.

        Raises:
            AnswerTooLarge: the response has more bytes than are kept.
        """
        headers = credentials.headers
        try:
            async with self._session.post(url, data=body, headers=headers) as reply:
                status = reply.status
                await room.enter_async_context(self._answers.room(_size(reply)))
                answer = await _bounded(reply)
        except AnswerTooLarge:
            self.attempts[str(status)] += 1
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            self.attempts["Unreachable"] += 1
            gate.rejected(Refuser.POOL, None)
            return PoolReply(503, "", b"")
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.attempts["Lost"] += 1
            gate.rejected(Refuser.POOL, None)
            return None
        self.attempts[str(status)] += 1
        seconds = retry_after(reply.headers.get("Retry-After"))
        if pod_lost(status, answer):
            gate.rejected(Refuser.POOL, seconds)
            return None
        match verdict(status, 0, seconds):
            case LineVerdict.WAIT:
                gate.rejected(refuser(status, credentials.key_rate), seconds)
            case LineVerdict.OUTPUT | LineVerdict.ERROR:
                gate.answered()
        request_name = reply.headers.get("X-Request-Id", headers["X-Request-Id"])
        return PoolReply(status, request_name, answer, seconds)

    def _credentials(self, batch: BatchJob, line: Line) -> _Credentials | None:
        """Return the headers of a line; None if its tenant has no key."""
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": request_id(batch.id, line.number),
            "X-Penstock-Priority": str(names.BATCH_PRIORITY),
        }
        if self._keys is None:
            return _Credentials(headers, None)
        key = self._keys.of_tenant(batch.tenant, batch.key_digest)
        if key is None:
            return None
        headers["Authorization"] = f"Bearer {key.key}"
        return _Credentials(headers, key.requests_per_minute)


def _body(request: BatchRequest, batch: BatchJob) -> bytes:
    """Return the body with the priority of batch work, of infer requests in `parameters`; the rest is as the client wrote it."""
    priority = {"priority": msgspec.Raw(str(names.BATCH_PRIORITY).encode())}
    if not batch.infer:
        return msgspec.json.encode({**request.body, **priority})
    try:
        parameters = _PARAMETERS.decode(request.body.get("parameters", msgspec.Raw(b"null")))
    except (msgspec.MsgspecError, RecursionError):  # the pod refuses it
        return msgspec.json.encode(request.body)
    return msgspec.json.encode({**request.body, "parameters": {**(parameters or {}), **priority}})


def _size(reply: aiohttp.ClientResponse) -> int:
    """Return how many bytes a response may have; one that does not say may have the most."""
    size = None if "Content-Encoding" in reply.headers else reply.content_length
    if size is not None and size > MAX_ANSWER_BYTES:
        raise _too_large()
    return MAX_ANSWER_BYTES if size is None else size


def _too_large() -> AnswerTooLarge:
    return AnswerTooLarge(f"The answer has more than {MAX_ANSWER_BYTES} bytes: split the request.")


async def _bounded(reply: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in reply.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)
