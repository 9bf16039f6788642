"""Refusals of the embeddings route as OpenAI's clients read them: an object under `error`, the field in `param`."""

from aiohttp import web

from penstock_runtime.errors import Refusal
from penstock_runtime.protocols.replies import error_reply

_KINDS = {404: "not_found_error", 408: "timeout_error", 429: "rate_limit_error"}


def problem(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    retry_after_seconds: float | None = None,
) -> web.Response:
    """Return an error's answer; `field` beside it is what this pod's other protocols say."""
    kind = "server_error" if status >= 500 else _KINDS.get(status, "invalid_request_error")
    error = {"message": message, "type": kind, "param": param, "code": code}
    return error_reply(
        status, "", field=param, retry_after_seconds=retry_after_seconds, error=error
    )


def refusal_problem(refusal: Refusal) -> web.Response:
    """Return a refusal's answer; the connection closes where an unread body may follow."""
    reply = problem(
        refusal.status,
        refusal.message,
        param=refusal.field,
        code=refusal.reason,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    if refusal.closes:
        reply.force_close()
    return reply
