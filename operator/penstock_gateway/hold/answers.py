"""Answers to held requests, in the error shapes of the pods: OpenAI's under `/v1/`, else `{"error": message}`.

The pool's route retries 503 except with `HEADER_FINAL`: of these answers only the release.
"""

import json
import math
from typing import Any, Final

from aiohttp import hdrs, web

from penstock_gateway.hold.queue import Refusal
from penstock_gateway.resources.hold import HEADER_FINAL

_OPENAI: Final = ("/v1/", "/tokenize", "/detokenize")
_STATUS: Final = {Refusal.FULL: 429, Refusal.EXPIRED: 504, Refusal.DEADLINE: 504, Refusal.GONE: 503}


def refusal(path: str, reason: Refusal, message: str, retry_seconds: float) -> web.Response:
    """Return the final answer to a request that is not held any longer, or not at all."""
    return _final(_error(_STATUS[reason], path, reason.value, message, retry_seconds))


def release(path: str) -> web.Response:
    """Return the answer that the pool's route retries on a pod; a client sees it if no retry is left."""
    return _error(503, path, "NotServing", "no pod took the request: send it again", 1.0)


def not_serving(path: str, retry_seconds: float) -> web.Response:
    """Return the final answer to a request that starts no pod, such as a probe of readiness."""
    message = "no pod is ready; the first POST request starts one"
    return _final(_error(503, path, "NotServing", message, retry_seconds))


def _final(answer: web.Response) -> web.Response:
    answer.headers[HEADER_FINAL] = "true"
    return answer


def _error(status: int, path: str, reason: str, message: str, retry_seconds: float) -> web.Response:
    body: dict[str, Any] = {"error": message}
    if path.startswith(_OPENAI):
        kind = "rate_limit_error" if status == 429 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": None}
        body = {"error": error, "reason": reason}
    headers = {hdrs.RETRY_AFTER: str(max(1, math.ceil(retry_seconds)))}
    data = json.dumps(body).encode()
    return web.Response(body=data, status=status, headers=headers, content_type="application/json")
