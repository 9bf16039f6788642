"""`Sender`: sends one line to its pool until it has an answer."""

import asyncio
import random
from collections import Counter
from typing import Final, NamedTuple

import aiohttp
import msgspec

from penstock_api import names
from penstock_api.api_keys import ApiKeyRing
from penstock_batches.config import BatchSettings
from penstock_batches.dispatch.gate import TenantGate
from penstock_batches.dispatch.outcome import (
    MAX_LOSSES,
    LineVerdict,
    Refuser,
    engine_died,
    pause_seconds,
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
CONNECT_SECONDS: Final = 5.0
POOL_AWAY_SECONDS: Final = 5.0
_PARAMETERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


class _Credentials(NamedTuple):
    headers: dict[str, str]
    key_rate: float | None


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
        self.attempts: Counter[str] = Counter()
        """Attempts by status, or by Lost and Unreachable."""

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def serve(self, batch: BatchJob, line: Line, gate: TenantGate) -> tuple[bytes, bool]:
        """Return the answer of a line, and whether it belongs to the output file."""
        try:
            content = await asyncio.to_thread(
                self._payloads.read, batch.input_file_id, line.offset, line.length
            )
            request = read_request(content.strip(), line.number, batch.endpoint)
        except FileNotFoundError:
            fault = Fault("file_not_found", "The input file of the batch is gone.", line.number)
            return fault_line(batch.id, line.number, None, fault), False
        except BadLine as bad:
            return fault_line(batch.id, line.number, bad.custom_id, bad.fault), False
        try:
            return await self._until_answered(batch, line, request, gate)
        except AnswerTooLarge as large:
            fault = Fault("answer_too_large", str(large), line.number)
            return fault_line(batch.id, line.number, request.custom_id, fault), False

    async def _until_answered(
        self, batch: BatchJob, line: Line, request: BatchRequest, gate: TenantGate
    ) -> tuple[bytes, bool]:
        body = _body(request, batch)
        failures = losses = 0
        while True:
            url = self._pools.url(request.model)
            if url is None:  # the pool was deleted: it may come back until the batch expires
                await asyncio.sleep(POOL_AWAY_SECONDS)
                continue
            async with gate.place():
                credentials = self._credentials(batch, line)
                if credentials is None:
                    if not gate.keyless():
                        continue
                    message = "No API key of this batch's tenant is valid any more."
                    fault = Fault("invalid_api_key", message, line.number)
                    return fault_line(batch.id, line.number, request.custom_id, fault), False
                gate.keyed()
                reply = await self._attempt(url + batch.endpoint, body, credentials, gate)
            if reply is None:
                losses += 1
                if losses < MAX_LOSSES:
                    await _pause(losses)
                    continue
                message = f"The connection was lost, or the engine died, {losses} times while this request was computed."
                fault = Fault("server_error", message, line.number)
                return fault_line(batch.id, line.number, request.custom_id, fault), False
            match verdict(reply.status, failures, reply.retry_after_seconds):
                case LineVerdict.WAIT:
                    continue
                case LineVerdict.RETRY:
                    failures += 1
                    await _pause(failures)
                case LineVerdict.OUTPUT | LineVerdict.ERROR as end:
                    text = response_line(batch.id, line.number, request.custom_id, reply)
                    return text, end is LineVerdict.OUTPUT

    async def _attempt(
        self, url: str, body: bytes, credentials: _Credentials, gate: TenantGate
    ) -> PoolReply | None:
        """Return the response; None if connection or engine was lost after the request was sent.

        Raises:
            AnswerTooLarge: the response has more bytes than are kept.
        """
        headers = credentials.headers
        try:
            async with self._session.post(url, data=body, headers=headers) as reply:
                status = reply.status
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
        if engine_died(status, answer):
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


async def _pause(times: int) -> None:
    await asyncio.sleep(pause_seconds(times, random.random()))  # noqa: S311  spreads retries


async def _bounded(reply: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in reply.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            message = f"The answer has more than {MAX_ANSWER_BYTES} bytes: split the request."
            raise AnswerTooLarge(message)
        parts.append(part)
    return b"".join(parts)
