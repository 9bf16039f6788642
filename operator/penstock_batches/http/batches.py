"""The routes below `/v1/batches`."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from penstock_batches import transitions
from penstock_batches.errors import ApiError, IllegalTransition, StateConflict, StoreUnavailable
from penstock_batches.http import fields
from penstock_batches.http.caller import TenantAuthenticator
from penstock_batches.http.errors import json_response
from penstock_batches.http.files import FileRoutes, page
from penstock_batches.records import BatchJob, Counts, Purpose, Status
from penstock_batches.requests import ENDPOINTS
from penstock_batches.store.base import Store

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 2**16
BODY_SECONDS: Final = 30.0
PAGE: Final = 100
DEFAULT_PAGE: Final = 20
MAX_ACTIVE: Final = 200
"""Batches of one tenant that have not ended."""
MAX_RECORDS: Final = 10_000
"""Batches of one tenant that are recorded; beyond it, the oldest that have ended are deleted."""
CANCEL_ATTEMPTS: Final = 20
TIMES: Final = (
    "in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at",
)  # fmt: skip


def batch_object(batch: BatchJob, counts: Counts) -> dict[str, Any]:
    """Return a batch as OpenAI's object."""
    shown = batch.final or counts
    faults = [
        {"code": fault.code, "line": fault.line, "message": fault.message, "param": fault.param}
        for fault in batch.errors
    ]
    times = {name: getattr(batch, name) for name in TIMES}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model,
        "errors": {"object": "list", "data": faults} if faults else None,
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": batch.status.value,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": int(batch.created_at),
        "expires_at": int(batch.expires_at),
        **{name: None if value is None else int(value) for name, value in times.items()},
        "request_counts": {
            "total": shown.total,
            "completed": shown.completed,
            "failed": shown.failed,
        },
        "metadata": batch.metadata,
    }


class BatchRoutes:
    """Creates, lists, shows and cancels the batches of a tenant."""

    def __init__(
        self,
        store: Store,
        files: FileRoutes,
        callers: TenantAuthenticator,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when a batch was created or cancelled."""
        self._store = store
        self._files = files
        self._callers = callers
        self._changed = changed

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._get)
        app.router.add_post("/v1/batches/{id}/cancel", self._cancel)

    async def _create(self, request: web.Request) -> web.Response:
        caller = self._callers.identify(request)
        body = await _read_object(request)
        file_id = _text(body, "input_file_id")
        endpoint = _text(body, "endpoint")
        if endpoint not in ENDPOINTS:
            raise fields.invalid("endpoint", f"one of {', '.join(ENDPOINTS)}", endpoint)
        window = _text(body, "completion_window")
        seconds = fields.window_seconds(window)
        metadata = fields.metadata(body.get("metadata"))
        output_seconds = fields.expiry_seconds(
            body.get("output_expires_after"), "output_expires_after"
        )
        file = await self._files.owned(file_id, caller.tenant)
        if file.purpose is not Purpose.BATCH:
            raise fields.invalid("input_file_id", "a file with purpose batch", file.purpose.value)
        active = await self._store.active()
        own = [each for each in active if each.tenant == caller.tenant and not each.infer]
        if len(own) >= MAX_ACTIVE:
            message = f"{len(own)} batches have not ended, the most that a tenant may have: wait for one, or cancel one."
            raise ApiError(429, message, code="too_many_batches", retry_after_seconds=60)
        now = time.time()
        batch = BatchJob(
            id=f"batch_{secrets.token_hex(12)}",
            tenant=caller.tenant,
            key_digest=caller.key_digest,
            endpoint=endpoint,
            input_file_id=file.id,
            completion_window=window,
            created_at=now,
            expires_at=now + seconds,
            metadata=metadata,
            output_seconds=output_seconds,
        )
        await self._delete_surplus(caller.tenant)
        await self._store.add_batch(batch)
        log.info("batch submitted", extra={"batch": batch.id, "tenant": batch.tenant})
        self._changed()
        return json_response(batch_object(batch, Counts()))

    async def _list(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        number = fields.limit(request.query, PAGE, DEFAULT_PAGE)
        after_id = request.query.get("after")
        after = await self._owned(after_id, tenant) if after_id else None
        batches = await self._store.batches(tenant, after, number + 1)
        shown = [batch_object(batch, await self._counts(batch)) for batch in batches]
        return json_response(page(shown, number))

    async def _get(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        batch = await self._owned(request.match_info["id"], tenant)
        return json_response(batch_object(batch, await self._counts(batch)))

    async def _cancel(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        batch = await self._owned(request.match_info["id"], tenant)
        batch = await cancelled(self._store, batch, self._changed)
        return json_response(batch_object(batch, await self._counts(batch)))

    async def _owned(self, batch_id: str, tenant: str) -> BatchJob:
        batch = await self._store.batch(batch_id)
        if batch is None or batch.tenant != tenant or batch.infer:
            raise ApiError(404, f"No batch found with id '{batch_id[:80]}'.", param="id")
        return batch

    async def _delete_surplus(self, tenant: str) -> None:
        """Make room for one more record, before the batch is added: a store that fails here then has no batch that the client does not know of."""
        for batch in await self._store.batches(tenant, None, MAX_ACTIVE + PAGE, MAX_RECORDS - 1):
            await self._store.delete_batch(batch.id)

    async def _counts(self, batch: BatchJob) -> Counts:
        return batch.final or await self._store.counts(batch.id)


async def cancelled(store: Store, batch: BatchJob, changed: Callable[[], None]) -> BatchJob:
    """Return a batch once it is cancelling or cancelled.

    Raises:
        ApiError: it ends, or has ended.
    """
    for _ in range(CANCEL_ATTEMPTS):
        if batch.status in (Status.CANCELLING, Status.CANCELLED):
            return batch
        try:
            written = await store.write(transitions.cancelling(batch, time.time()))
            changed()
            return written
        except StateConflict:
            batch = await store.batch(batch.id) or batch
        except IllegalTransition as error:
            what = "request" if batch.infer else "batch"
            message = f"Cannot cancel a {what} with status '{batch.status.value}'."
            raise ApiError(409, message, param="id") from error
    raise StoreUnavailable(f"batch {batch.id} changes too often")


async def read_body(request: web.Request, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: it is larger than `max_bytes`.
        TimeoutError: it does not arrive in time.
    """
    parts, size = [], 0
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if size > max_bytes:
                raise ApiError(413, f"The body exceeds {max_bytes} bytes.")
            parts.append(chunk)
    return b"".join(parts)


async def _read_object(request: web.Request) -> dict[str, Any]:
    content = await read_body(request, MAX_BODY_BYTES)
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"The body must be a JSON object: {error}") from error


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        message = f"Missing required parameter: {name}."
        raise ApiError(400, message, param=name, code="missing_required_parameter")
    if not isinstance(value, str):
        raise fields.invalid(name, "a text", value)
    return value
