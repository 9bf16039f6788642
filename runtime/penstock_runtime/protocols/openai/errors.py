"""Errors as OpenAI's clients read them: an object under `error` that names the field in `param`."""

import math
from typing import Any, Final

import orjson
from aiohttp import hdrs, web
from msgspec.structs import replace

from penstock_runtime.errors import RequestRejected
from penstock_runtime.protocols.common.replies import Reply, response_of

_KINDS = {408: "timeout_error", 429: "rate_limit_error"}
_BELOW: Final = ("/v1/", "/tokenize", "/detokenize")


def speaks_openai(path: str) -> bool:
    """Return whether what is asked for at `path` is answered in OpenAI's words, whatever goes wrong."""
    return path == "/v1" or path.startswith(_BELOW)


def kind_of(status: int) -> str:
    """Return OpenAI's word for what kind of error a status is."""
    if status >= 500:
        return "server_error"
    return _KINDS.get(status, "invalid_request_error")


def error_body(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """Return the body of an error: OpenAI's object, then `field` as this pod's other protocols have it, and `reason`.

    `code` is one of OpenAI's; `reason` is the label by which this pod counts refusals and ends.
    """
    error = {"message": message, "type": kind_of(status), "param": param, "code": code}
    more = {"field": param, "reason": reason}
    return {"error": error, **{name: value for name, value in more.items() if value}}


def error_reply(
    status: int, message: str, *, retry_after_seconds: float | None = None, **more: str | None
) -> Reply:
    """Return an error's answer, for either lane to write; `more` is as for `error_body`."""
    headers: tuple[tuple[str, str], ...] = ()
    if retry_after_seconds is not None:
        headers = ((hdrs.RETRY_AFTER, str(max(1, math.ceil(retry_after_seconds)))),)
    body = orjson.dumps(error_body(status, message, **more))
    return Reply(status, body, headers=headers)


def of_refusal(refusal: RequestRejected) -> Reply:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    reply = error_reply(
        refusal.status,
        refusal.message,
        param=refusal.field,
        code=refusal.code,
        reason=refusal.reason,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    return replace(reply, closes=True) if refusal.closes else reply


def openai_refusal(refusal: RequestRejected) -> web.Response:
    """Return `of_refusal` for aiohttp to write."""
    return response_of(of_refusal(refusal))
