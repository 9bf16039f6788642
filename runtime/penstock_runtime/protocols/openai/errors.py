"""Errors as OpenAI's clients read them: an object under `error` that names the field in `param`."""

import math
from typing import Any

import orjson
from aiohttp import hdrs, web
from msgspec.structs import replace

from penstock_runtime.errors import Refusal
from penstock_runtime.protocols.replies import Reply, response_of

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


def error_reply(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    retry_after_seconds: float | None = None,
) -> Reply:
    """Return an error's answer, for either lane to write."""
    headers: tuple[tuple[str, str], ...] = ()
    if retry_after_seconds is not None:
        headers = ((hdrs.RETRY_AFTER, str(max(1, math.ceil(retry_after_seconds)))),)
    body = orjson.dumps(error_body(status, message, param=param, code=code))
    return Reply(status, body, headers=headers)


def of_refusal(refusal: Refusal) -> Reply:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    reply = error_reply(
        refusal.status,
        refusal.message,
        param=refusal.field,
        code=refusal.reason,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    return replace(reply, closes=True) if refusal.closes else reply


def openai_error(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    retry_after_seconds: float | None = None,
) -> web.Response:
    """Return `error_reply` for aiohttp to write."""
    return response_of(
        error_reply(
            status, message, param=param, code=code, retry_after_seconds=retry_after_seconds
        )
    )


def openai_refusal(refusal: Refusal) -> web.Response:
    """Return `of_refusal` for aiohttp to write."""
    return response_of(of_refusal(refusal))
