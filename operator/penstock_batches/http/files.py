"""The routes below `/v1/files`."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiohttp import web

from penstock_batches.config import BatchSettings
from penstock_batches.errors import ApiError, VolumeFull
from penstock_batches.http.caller import TenantAuthenticator
from penstock_batches.http.errors import json_response
from penstock_batches.http.fields import invalid, limit
from penstock_batches.http.upload import Upload, read_upload, required
from penstock_batches.payloads import Payloads
from penstock_batches.records import File, Purpose
from penstock_batches.store.base import Store

PAGE: Final = 10_000
DAY_SECONDS: Final = 86_400.0
BUSY_SECONDS: Final = 5.0
LISTED: Final = (Purpose.BATCH, Purpose.BATCH_OUTPUT)
"""Purposes that a list of files may be narrowed to; no file has another."""


def file_object(file: File) -> dict[str, Any]:
    """Return a file as OpenAI's object."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": None if file.expires_at is None else int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose.value,
        "status": "processed",
        "status_details": None,
    }


def no_file(file_id: str) -> ApiError:
    """Return the error of a file that the tenant does not have."""
    return ApiError(404, f"No such File object: {file_id[:80]}", param="id")


class FileRoutes:
    """Uploads, lists, serves and deletes the files of a tenant."""

    def __init__(
        self,
        settings: BatchSettings,
        store: Store,
        payloads: Payloads,
        callers: TenantAuthenticator,
    ) -> None:
        self._settings = settings
        self._store = store
        self._payloads = payloads
        self._callers = callers
        self._uploads: Counter[str] = Counter()
        """Uploads that are being read, by tenant."""

    @property
    def uploads(self) -> int:
        """Uploads that are being read."""
        return self._uploads.total()

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post("/v1/files", self._create)
        app.router.add_get("/v1/files", self._list)
        app.router.add_get("/v1/files/{id}", self._get)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_delete("/v1/files/{id}", self._delete)

    async def owned(self, file_id: str, tenant: str) -> File:
        """Return a file of a tenant.

        Raises:
            ApiError: the tenant has no such file.
        """
        file = await self._store.file(file_id)
        if file is None or file.tenant != tenant or file.purpose is Purpose.INFER:
            raise no_file(file_id)
        return file

    async def _create(self, request: web.Request) -> web.Response:
        caller = self._callers.identify(request)
        with self._slot(caller.tenant):
            upload = await self._read(request)
        try:
            required(upload.fields, "purpose", (Purpose.BATCH.value,))
            seconds = upload.expires_after or self._settings.file_days * DAY_SECONDS
            if not upload.part.size:
                raise invalid("file", "a file with content", "an empty file")
            file_id, now = f"file-{secrets.token_hex(12)}", time.time()
            size = upload.part.size
            await asyncio.to_thread(upload.part.commit, file_id)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(upload.part.discard))
            raise
        file = File(
            file_id, caller.tenant, Purpose.BATCH, upload.filename, size, now, now + seconds
        )
        try:
            await self._store.add_file(file)
        except BaseException:
            await asyncio.to_thread(self._payloads.delete, file_id)
            raise
        return json_response(file_object(file))

    @contextmanager
    def _slot(self, tenant: str) -> Iterator[None]:
        """Count an upload: where tenants have keys, each may have half of the uploads at one time.

        Raises:
            ApiError: the tenant, or all together, have the most already.
        """
        most = self._settings.max_uploads
        share = max(1, most // 2) if self._settings.api_keys_file else most
        own = self._uploads[tenant]
        if own >= share or self.uploads >= most:
            message = f"{self.uploads} uploads are in progress, {own} of them of this tenant; at most {most} and {share} are at one time: try again."
            raise ApiError(429, message, retry_after_seconds=BUSY_SECONDS)
        self._uploads[tenant] += 1
        try:
            yield
        finally:
            self._uploads.subtract([tenant])
            self._uploads += Counter()  # forgets tenants without an upload

    async def _read(self, request: web.Request) -> Upload:
        if await asyncio.to_thread(self._payloads.free_bytes) < self._settings.min_free_bytes:
            raise VolumeFull(f"less than {self._settings.min_free_bytes} bytes are free")
        await self._store.file("file-none")  # a store that is away refuses before the body is read
        return await read_upload(request, self._payloads, self._settings.max_file_bytes)

    async def _list(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        number = limit(request.query, PAGE, PAGE)
        order = request.query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise invalid("order", "asc or desc", order)
        purpose = request.query.get("purpose")
        after_id = request.query.get("after")
        after = await self.owned(after_id, tenant) if after_id else None
        if purpose is not None and purpose not in LISTED:
            return json_response(page([], number))
        files = await self._store.files(
            tenant,
            after,
            number + 1,
            newest_first=order == "desc",
            purpose=Purpose(purpose) if purpose else None,
        )
        return json_response(page([file_object(file) for file in files], number))

    async def _get(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        return json_response(file_object(await self.owned(request.match_info["id"], tenant)))

    async def _content(self, request: web.Request) -> web.StreamResponse:
        tenant = self._callers.identify(request).tenant
        file = await self.owned(request.match_info["id"], tenant)
        path = self._payloads.path(file.id)
        if not await asyncio.to_thread(path.is_file):
            raise no_file(file.id)
        headers = {"Content-Type": "application/octet-stream"}
        return web.FileResponse(path, chunk_size=2**18, headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        tenant = self._callers.identify(request).tenant
        file = await self.owned(request.match_info["id"], tenant)
        for batch in await self._store.active():
            if batch.input_file_id == file.id:
                message = f"File {file.id} is the input of batch {batch.id}, which is {batch.status.value}: cancel it first."
                raise ApiError(409, message, param="id")
        await asyncio.to_thread(self._payloads.delete, file.id)  # a store may need its room
        await self._store.delete_file(file.id)
        return json_response({"id": file.id, "object": "file", "deleted": True})


def page(objects: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """Return a page of at most `number` of `objects`, which has one more if there is a next page."""
    shown = objects[:number]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(objects) > number,
    }
