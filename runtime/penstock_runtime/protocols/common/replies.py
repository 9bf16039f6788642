"""How an answer looks on the wire; a refusal and an error are one JSON object with an `error` key, and the field."""

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
"""The client's `X-Request-Id`, or one of ours."""


class Reply(Struct, frozen=True):
    """An answer as both lanes write it, but for the headers that every answer has."""

    status: int
    body: bytes | memoryview
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False
    """Whether the connection cannot be used again."""


def response_of(reply: Reply) -> web.Response:
    """Return `reply` for aiohttp to write."""
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
    """Return an error's answer; `Retry-After` is whole seconds (RFC 9110), rounded up, at least 1."""
    body = {"error": message, **({"field": field} if field else {}), **more}
    headers: tuple[tuple[str, str], ...] = ()
    if retry_after_seconds is not None:
        headers = ((hdrs.RETRY_AFTER, str(max(1, math.ceil(retry_after_seconds)))),)
    return Reply(status, orjson.dumps(body), headers=headers, closes=closes)


def of_refusal(refusal: RequestRejected) -> Reply:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    return error(
        refusal.status,
        refusal.message,
        field=refusal.field,
        retry_after_seconds=refusal.retry_after_seconds,
        closes=refusal.closes,
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
    """Return `error` for aiohttp to write."""
    return response_of(
        error(status, message, field=field, retry_after_seconds=retry_after_seconds, **more)
    )


def refusal_reply(refusal: RequestRejected) -> web.Response:
    """Return `of_refusal` for aiohttp to write."""
    return response_of(of_refusal(refusal))
