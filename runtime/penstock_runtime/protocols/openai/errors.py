"""Errors as OpenAI's clients read them: an object under `error` that names the field in `param`."""

import math
from typing import Any

from aiohttp import hdrs, web

from penstock_runtime.errors import Refusal
from penstock_runtime.protocols.replies import json_reply

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


def kind_of(status: int) -> str:
    """Return OpenAI's word for what kind of error a status is."""
    if status >= 500:
        return "server_error"
    return _KINDS.get(status, "invalid_request_error")


def error_body(
    status: int, message: str, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return the body of an error; `field` beside it is what this pod's other protocols say."""
    error = {"message": message, "type": kind_of(status), "param": param, "code": code}
    return {"error": error, **({"field": param} if param else {})}


def openai_error(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    retry_after_seconds: float | None = None,
) -> web.Response:
    """Return an error's answer."""
    reply = json_reply(error_body(status, message, param=param, code=code), status)
    if retry_after_seconds is not None:
        reply.headers[hdrs.RETRY_AFTER] = str(max(1, math.ceil(retry_after_seconds)))
    return reply


def openai_refusal(refusal: Refusal) -> web.Response:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    reply = openai_error(
        refusal.status,
        refusal.message,
        param=refusal.field,
        code=refusal.reason,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    if refusal.closes:
        reply.force_close()
    return reply
