"""Reads an upload: a multipart body whose file goes to the volume as it arrives."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from penstock_batches.errors import ApiError
from penstock_batches.http.fields import expiry_seconds, invalid
from penstock_batches.payloads import Part, Payloads

CHUNK_BYTES: Final = 2**18
CHUNK_SECONDS: Final = 60.0
"""Time that a client may be silent."""
MIN_BYTES_PER_SECOND: Final = 2**16
"""Rate that bounds the time of an upload as a whole, together with CHUNK_SECONDS."""
MAX_FIELD_BYTES: Final = 4096
MAX_FIELDS: Final = 20
OVERHEAD_BYTES: Final = 2**16
"""What a body may have besides its file."""
EXPIRY: Final = re.compile(r"expires_after\[(anchor|seconds)\]")


@dataclass(slots=True)
class Upload:
    """What an upload has: its content, of which nothing is visible yet, and its fields."""

    part: Part
    filename: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def expires_after(self) -> float | None:
        """Seconds after which the file is deleted; None if unset.

        Raises:
            ApiError: the field is invalid.
        """
        parts = {
            match[1]: self.fields[name] for name in self.fields if (match := EXPIRY.fullmatch(name))
        }
        return expiry_seconds(parts or None, "expires_after")


async def read_upload(request: web.Request, payloads: Payloads, max_bytes: int) -> Upload:
    """Return the upload in a request; the caller commits or discards its part.

    Raises:
        ApiError: the body is no upload, or too large.
        TimeoutError: the body, or a part of it, does not arrive in time.
        VolumeFull: the volume has no room.
    """
    if not request.content_type == "multipart/form-data":
        raise ApiError(
            400, "Send the file as multipart/form-data, with the fields file and purpose."
        )
    if (request.content_length or 0) > max_bytes + OVERHEAD_BYTES:
        raise too_large(max_bytes)
    upload = Upload(payloads.part())
    try:
        size = request.content_length or max_bytes
        async with asyncio.timeout(CHUNK_SECONDS + size / MIN_BYTES_PER_SECOND):
            await _read_parts(request, upload, max_bytes)
    except (ValueError, AssertionError, HttpProcessingError) as error:
        await asyncio.shield(asyncio.to_thread(upload.part.discard))
        raise ApiError(400, f"The body is not valid multipart/form-data: {error}") from error
    except BaseException:
        await asyncio.shield(asyncio.to_thread(upload.part.discard))
        raise
    return upload


def too_large(max_bytes: int) -> ApiError:
    """Return the error of a file that is too large."""
    message = f"The file exceeds {max_bytes} bytes, the most that a file may have: split it."
    return ApiError(413, message, param="file", code="file_too_large")


async def _read_parts(request: web.Request, upload: Upload, max_bytes: int) -> None:
    reader = await request.multipart()
    has_file = False
    while True:
        async with asyncio.timeout(CHUNK_SECONDS):
            part = await reader.next()
        if part is None:
            break
        if not isinstance(part, BodyPartReader) or not part.name:
            raise ApiError(400, "Each part of the body must have a name and no parts of its own.")
        if part.name == "file":
            if has_file:
                raise ApiError(400, "The body must have one part named file.", param="file")
            has_file = True
            upload.filename = _filename(part.filename)
            await _read_file(part, upload.part, max_bytes)
        else:
            await _read_field(part, upload.fields)
    if not has_file:
        message = "Missing required parameter: file."
        raise ApiError(400, message, param="file", code="missing_required_parameter")


async def _read_file(part: BodyPartReader, into: Part, max_bytes: int) -> None:
    while True:
        async with asyncio.timeout(CHUNK_SECONDS):
            chunk = await part.read_chunk(CHUNK_BYTES)
        if not chunk:
            return
        if into.size + len(chunk) > max_bytes:
            raise too_large(max_bytes)
        await asyncio.to_thread(into.write, chunk)


async def _read_field(part: BodyPartReader, fields: dict[str, str]) -> None:
    name = str(part.name)[:64]
    content = b""
    async with asyncio.timeout(CHUNK_SECONDS):
        while chunk := await part.read_chunk(MAX_FIELD_BYTES):
            content += chunk
            if len(content) > MAX_FIELD_BYTES:
                raise invalid(name, f"at most {MAX_FIELD_BYTES} bytes", content[:40])
    if len(fields) >= MAX_FIELDS:
        raise ApiError(400, f"The body has more than {MAX_FIELDS} fields.")
    if name in fields:
        raise ApiError(400, f"The body has the field {name} twice.", param=name)
    fields[name] = content.decode("utf-8", "replace")


def _filename(name: str | None) -> str:
    return (name or "upload.jsonl").replace("/", "_").replace("\\", "_")[:255]


def required(fields: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return a field that must have one of some values.

    Raises:
        ApiError: it is missing, or has another value.
    """
    value = fields.get(name)
    if value is None:
        message = f"Missing required parameter: {name}."
        raise ApiError(400, message, param=name, code="missing_required_parameter")
    if value not in allowed:
        raise invalid(name, f"one of {', '.join(allowed)}", value)
    return value
