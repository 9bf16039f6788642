"""The routes of asynchronous infer requests: a request is a batch of one line that no list shows."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

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
FAULTS: Final = {
    "batch_expired": (504, "The request was not answered before its completion window ended."),
    "batch_cancelled": (410, "The request was cancelled."),
}
"""Status and message of a request that was not executed."""
FAULT_STATUS: Final = {"invalid_api_key": 401, "model_not_found": 404}


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Result(msgspec.Struct):
    response: _Response | None
    error: Fault | None


_RESULT: Final = msgspec.json.Decoder(_Result)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
        line = infer_line(endpoint, await _json_body(request))
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

    async def _get(self, request: web.Request) -> web.Response:
        batch = await self._owned(request)
        if batch.status not in ENDED:
            return _waiting(batch)
        file_id = batch.output_file_id or batch.error_file_id
        if file_id is None:
            return _fault(batch.errors[0] if batch.errors else None, batch.status)
        try:
            content = await asyncio.to_thread(self._payloads.path(file_id).read_bytes)
        except FileNotFoundError as error:
            raise _no_request(batch.id) from error
        result = _RESULT.decode(content)
        if result.response is None:
            return _fault(result.error, batch.status)
        return web.Response(
            body=bytes(result.response.body),
            status=result.response.status_code,
            content_type="application/json",
        )

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


async def _json_body(request: web.Request) -> bytes:
    if BINARY in request.headers:
        raise ApiError(415, "an asynchronous infer request has its tensors in JSON, not in binary")
    body = await read_body(request, MAX_LINE_BYTES - OVERHEAD_BYTES)
    try:
        body.decode()  # `Raw` itself accepts bytes that are not UTF-8
        _OBJECT.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"the body must be a JSON object: {error}") from error
    return body


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
