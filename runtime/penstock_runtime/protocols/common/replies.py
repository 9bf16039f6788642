"""Replies and their wire form: a rejection or error is a JSON object with the keys `error` and `field`."""

import math
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import hdrs, web
from msgspec import Struct

from penstock_runtime.errors import RequestRejected
from penstock_runtime.protocols.common.long_answers import LongBody

JSON = "application/json"
REQUEST_ID = web.RequestKey("request_id", str)
"""The client's `X-Request-Id`, or a generated one."""


class Reply(Struct, frozen=True):
    """An answer of either path, without the headers that every answer has."""

    status: int
    body: bytes | memoryview
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False
    """Whether the connection closes after it."""


def response_of(reply: Reply) -> web.Response:
    """Return `reply` as an aiohttp response."""
    response = web.Response(
        body=LongBody(reply.body) if isinstance(reply.body, memoryview) else reply.body,
        status=reply.status,
        headers=reply.headers,
        content_type=reply.content_type,
    )
    if reply.closes:
        response.force_close()
    return response


def error(
    status: int,
    message: str,
    *,
    field: str | None = None,
    retry_after_seconds: float | None = None,
    closes: bool = False,
    **more: Any,
) -> Reply:
    """Return the reply for an error."""
    return failure(
        status, {**error_body(message, field), **more}, retry_after_seconds, closes=closes
    )


def error_body(message: str, field: str | None) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": message, **({"field": field} if field else {})}


def failure(
    status: int, body: Any, retry_after_seconds: float | None, *, closes: bool = False
) -> Reply:
    """Return the reply for an error with `body`; `Retry-After` is in integer seconds (RFC 9110), rounded up, at least 1."""
    headers: tuple[tuple[str, str], ...] = ()
    if retry_after_seconds is not None:
        headers = ((hdrs.RETRY_AFTER, str(max(1, math.ceil(retry_after_seconds)))),)
    return Reply(status, orjson.dumps(body), headers=headers, closes=closes)


def of_rejection(rejection: RequestRejected) -> Reply:
    """Return the reply for a rejection; the connection closes where an unread body may follow."""
    return error(
        rejection.status,
        rejection.message,
        field=rejection.field,
        retry_after_seconds=rejection.retry_after_seconds,
        closes=rejection.closes,
    )


def json_reply(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return `body` as JSON."""
    return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type=JSON)


def error_reply(
    status: int,
    message: str,
    *,
    field: str | None = None,
    retry_after_seconds: float | None = None,
    **more: Any,
) -> web.Response:
    """Return the reply of `error` as an aiohttp response."""
    return response_of(
        error(status, message, field=field, retry_after_seconds=retry_after_seconds, **more)
    )


def rejection_reply(rejection: RequestRejected) -> web.Response:
    """Return the reply of `of_rejection` as an aiohttp response."""
    return response_of(of_rejection(rejection))
