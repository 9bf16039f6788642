"""Errors in OpenAI's format: an object under `error` that names the field in `param`."""

from typing import Any, Final

from aiohttp import web
from msgspec.structs import replace

from penstock_runtime.errors import RequestRejected
from penstock_runtime.protocols.common.replies import Reply, failure, response_of

_KINDS = {408: "timeout_error", 429: "rate_limit_error"}
_BELOW: Final = ("/v1/", "/tokenize", "/detokenize")


def speaks_openai(path: str) -> bool:
    """Return whether errors of `path` have OpenAI's format."""
    return path == "/v1" or path.startswith(_BELOW)


def kind_of(status: int) -> str:
    """Return OpenAI's `type` of an error with this status."""
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
    """Return the body of an error: OpenAI's object, and `field` as in the pod's other protocols, and `reason`.

    `code` is one of OpenAI's; `reason` is the label in the metrics of rejections and ends.
    """
    error = {"message": message, "type": kind_of(status), "param": param, "code": code}
    more = {"field": param, "reason": reason}
    return {"error": error, **{name: value for name, value in more.items() if value}}


def error_reply(
    status: int, message: str, *, retry_after_seconds: float | None = None, **more: str | None
) -> Reply:
    """Return the reply for an error; `more` is passed to `error_body`."""
    return failure(status, error_body(status, message, **more), retry_after_seconds)


def of_rejection(rejection: RequestRejected) -> Reply:
    """Return the reply for a rejection; the connection closes where an unread body may follow."""
    reply = error_reply(
        rejection.status,
        rejection.message,
        param=rejection.field,
        code=rejection.code,
        reason=rejection.reason,
        retry_after_seconds=rejection.retry_after_seconds,
    )
    return replace(reply, closes=True) if rejection.closes else reply


def openai_rejection(rejection: RequestRejected) -> web.Response:
    """Return the reply of `of_rejection` as an aiohttp response."""
    return response_of(of_rejection(rejection))
