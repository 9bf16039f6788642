"""How a refusal and an error look on the wire: one JSON object with an `error` key, and the field."""

import math
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import hdrs, web

from penstock_runtime.errors import Refusal

JSON = "application/json"
REQUEST_ID = web.RequestKey("request_id", str)
"""The client's `X-Request-Id`, or one of ours."""


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
    """Return an error's answer; `Retry-After` is whole seconds (RFC 9110), rounded up, at least 1."""
    body = {"error": message, **({"field": field} if field else {}), **more}
    reply = json_reply(body, status)
    if retry_after_seconds is not None:
        reply.headers[hdrs.RETRY_AFTER] = str(max(1, math.ceil(retry_after_seconds)))
    return reply


def refusal_reply(refusal: Refusal) -> web.Response:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    reply = error_reply(
        refusal.status,
        refusal.message,
        field=refusal.field,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    if refusal.closes:
        reply.force_close()
    return reply


def http_error_reply(error: web.HTTPException) -> web.Response:
    """Return the router's own errors (404, 405) with an `error` key."""
    reply = error_reply(
        error.status, f"{error.status} {error.reason}: see /v2 for what is served here"
    )
    if hdrs.ALLOW in error.headers:
        reply.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
    return reply
