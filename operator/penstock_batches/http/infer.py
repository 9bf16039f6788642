"""The routes of asynchronous infer requests: a request is a batch of one line that no list shows."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO, Final

import msgspec
from aiohttp import web
from aiohttp.helpers import must_be_empty_body

from penstock_batches.config import BatchSettings
from penstock_batches.errors import ApiError, VolumeFull
from penstock_batches.http import fields
from penstock_batches.http.batches import cancelled, read_body
from penstock_batches.http.caller import TenantAuthenticator
from penstock_batches.http.errors import json_response
from penstock_batches.payloads import Payloads
from penstock_batches.pools import Pools
from penstock_batches.records import BatchJob, Fault, File, Purpose, Status
from penstock_batches.requests import MAX_LINE_BYTES, infer_line
from penstock_batches.results import HEAD_BYTES, PlacedBody, placed_body
from penstock_batches.store.base import Store
from penstock_batches.transitions import ENDED

HEADER_WINDOW: Final = "X-Penstock-Completion-Window"
HEADER_WEBHOOK: Final = "X-Penstock-Webhook"
BINARY: Final = "Inference-Header-Content-Length"
WINDOW: Final = "24h"
MAX_ACTIVE: Final = 1000
"""Requests of one tenant that have not ended, or whose webhook was not answered."""
RETRY_SECONDS: Final = 1
"""Time after which a client that polls should send its next request."""
DAY_SECONDS: Final = 86_400.0
OVERHEAD_BYTES: Final = 1024
"""What a line has besides its body."""
CHUNK_BYTES: Final = 2**18
"""Part of an answer in memory while it is sent."""
FAULTS: Final = {
    "batch_expired": (504, "The request was not answered before its completion window ended."),
    "batch_cancelled": (410, "The request was cancelled."),
}
"""Status and message of a request that was not executed."""
FAULT_STATUS: Final = {"invalid_api_key": 401, "model_not_found": 404}


class _Object(msgspec.Struct):
    """A JSON object, whose fields are skipped."""


_OBJECT: Final = msgspec.json.Decoder(_Object)


class InferRoutes:
    """Takes, shows and cancels the infer requests of a tenant."""

    def __init__(  # noqa: PLR0913, PLR0917  its parts
        self,
        settings: BatchSettings,
        store: Store,
        payloads: Payloads,
        pools: Pools,
        callers: TenantAuthenticator,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a request was created or cancelled."""
        self._settings = settings
        self._store = store
        self._payloads = payloads
        self._pools = pools
        self._callers = callers
        self._changed = changed

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post("/v2/models/{model}/infer", self._create)
        app.router.add_get("/v2/models/{model}/infer/{id}", self._get)
        app.router.add_delete("/v2/models/{model}/infer/{id}", self._delete)

    async def _create(self, request: web.Request) -> web.Response:
        caller = self._callers.identify(request)
        window = request.headers.get(HEADER_WINDOW, WINDOW)
        seconds = fields.window_seconds(window, HEADER_WINDOW)
        webhook = request.headers.get(HEADER_WEBHOOK, "")
        if webhook:
            fields.webhook(webhook, self._settings.webhook_hosts, HEADER_WEBHOOK)
        model = request.match_info["model"]
        if self._pools.listed and self._pools.url(model) is None:
            raise ApiError(404, f"model {model[:80]!r} is not served by a pool of this namespace")
        await self._check_room(caller.tenant)
        endpoint = f"/v2/models/{model}/infer"
        body = await _body(request)
        line = await asyncio.to_thread(_line, endpoint, body)
        batch_id, now = f"infer_{secrets.token_hex(12)}", time.time()
        file_id = f"file-{batch_id}"
        await asyncio.to_thread(self._commit, file_id, line)
        kept = now + max(seconds, self._settings.file_days * DAY_SECONDS)
        file = File(file_id, caller.tenant, Purpose.INFER, batch_id, len(line), now, kept)
        batch = BatchJob(
            id=batch_id,
            tenant=caller.tenant,
            key_digest=caller.key_digest,
            endpoint=endpoint,
            input_file_id=file_id,
            completion_window=window,
            created_at=now,
            expires_at=now + seconds,
            infer=True,
            webhook=webhook,
        )
        await self._store.add_file(file)
        await self._store.add_batch(batch)
        self._changed()
        return _waiting(batch)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        batch = await self._owned(request)
        if batch.status not in ENDED:
            return _waiting(batch)
        file_id = batch.output_file_id or batch.error_file_id
        if file_id is None:
            return _fault(batch.errors[0] if batch.errors else None, batch.status)
        with ExitStack() as opened:
            try:
                stream = await asyncio.to_thread(self._payloads.path(file_id).open, "rb")
            except FileNotFoundError as error:
                raise _no_request(batch.id) from error
            opened.enter_context(stream)
            place = await asyncio.to_thread(_placed, stream)
            if not isinstance(place, PlacedBody):
                return _fault(place, batch.status)
            return await _send(request, stream, place)

    async def _delete(self, request: web.Request) -> web.Response:
        await cancelled(self._store, await self._owned(request), self._changed)
        return web.Response(status=204)

    async def _owned(self, request: web.Request) -> BatchJob:
        tenant = self._callers.identify(request).tenant
        batch_id = request.match_info["id"]
        batch = await self._store.batch(batch_id)
        if batch is None or not batch.infer or batch.tenant != tenant:
            raise _no_request(batch_id)
        if batch.endpoint != f"/v2/models/{request.match_info['model']}/infer":
            raise _no_request(batch_id)
        return batch

    async def _check_room(self, tenant: str) -> None:
        active = await self._store.active()
        waiting = sum(each.infer and each.tenant == tenant for each in active)
        if waiting >= MAX_ACTIVE:
            message = f"{waiting} requests have not ended, or their webhooks were not answered, the most that a tenant may have: try again later"
            raise ApiError(429, message, retry_after_seconds=RETRY_SECONDS)
        if await asyncio.to_thread(self._payloads.free_bytes) < self._settings.min_free_bytes:
            raise VolumeFull(f"less than {self._settings.min_free_bytes} bytes are free")

    def _commit(self, file_id: str, line: bytes) -> None:
        part = self._payloads.part()
        try:
            part.write(line)
            part.commit(file_id)
        except BaseException:
            part.discard()
            raise


async def _body(request: web.Request) -> bytes:
    if BINARY in request.headers:
        raise ApiError(415, "an asynchronous infer request has its tensors in JSON, not in binary")
    return await read_body(request, MAX_LINE_BYTES - OVERHEAD_BYTES)


def _line(endpoint: str, body: bytes) -> bytes:
    """Return the line of a request.

    Raises:
        ApiError: the body is not a JSON object.
    """
    try:
        body.decode()  # `Raw` itself accepts bytes that are not UTF-8
        _OBJECT.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"the body must be a JSON object: {error}") from error
    return infer_line(endpoint, body)


def _placed(stream: BinaryIO) -> PlacedBody | Fault | None:
    """Return where the body of an answer is in its file, or its fault. Blocks on the disk."""
    return placed_body(stream.read(HEAD_BYTES), os.fstat(stream.fileno()).st_size)


async def _send(request: web.Request, stream: BinaryIO, place: PlacedBody) -> web.StreamResponse:
    """Send the body of an answer in pieces, each once the client has read those before it."""
    response = web.StreamResponse(status=place.status)
    response.content_type = "application/json"
    response.content_length = place.length
    await response.prepare(request)
    if must_be_empty_body(request.method, place.status):
        return response
    end = place.offset + place.length
    for offset in range(place.offset, end, CHUNK_BYTES):
        size = min(CHUNK_BYTES, end - offset)
        await response.write(await asyncio.to_thread(os.pread, stream.fileno(), size, offset))
    await response.write_eof()
    return response


def _waiting(batch: BatchJob) -> web.Response:
    location = f"{batch.endpoint}/{batch.id}"
    headers = {"Location": location, "Retry-After": str(RETRY_SECONDS)}
    body = {"id": batch.id, "status": batch.status.value, "expires_at": int(batch.expires_at)}
    return json_response(body, status=202, headers=headers)


def _fault(fault: Fault | None, status: Status) -> web.Response:
    code = fault.code if fault else f"batch_{status.value}"
    default = (FAULT_STATUS.get(code, 500), fault.message if fault else f"it is {status.value}")
    number, message = FAULTS.get(code, default)
    return json_response({"error": message}, status=number)


def _no_request(batch_id: str) -> ApiError:
    return ApiError(404, f"no infer request has the id {batch_id[:80]!r}")
