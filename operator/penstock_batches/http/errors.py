"""Errors in OpenAI's format, and the middleware that turns every failure into one."""

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from penstock_batches.errors import ApiError, StoreUnavailable, VolumeFull

log = logging.getLogger(__name__)

AWAY_SECONDS: Final = 5.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def error_response(error: ApiError, path: str = "") -> web.Response:
    """Return the response of an error; below `/v2/` in the form of Open Inference."""
    detail = {
        "message": error.message,
        "type": _kind(error.status),
        "param": error.param,
        "code": error.code,
    }
    body = {"error": error.message if path.startswith("/v2/") else detail}
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return json_response(body, status=error.status, headers=headers)


def json_response(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a JSON response."""
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        headers=headers,
        content_type="application/json",
    )


@web.middleware
async def openai_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every failure with an error in the form of its API."""
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(error, request.path)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        message = f"{error.reason}: {request.method} {request.path[:200]}"
        return error_response(ApiError(error.status, message), request.path)
    except (StoreUnavailable, VolumeFull) as error:
        log.warning("%s %s is refused: %s", request.method, request.path, error)
        what = (
            "the store of batches" if isinstance(error, StoreUnavailable) else "the volume of files"
        )
        message = f"{what} does not take requests now: try again"
        return error_response(
            ApiError(503, message, retry_after_seconds=AWAY_SECONDS), request.path
        )
    except ConnectionError:
        raise
    except TimeoutError:
        late = ApiError(408, "The body did not arrive in time: send the request again.")
        return error_response(late, request.path)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        failed = ApiError(500, "The server failed; its log has the reason.")
        return error_response(failed, request.path)


def _kind(status: int) -> str:
    if status >= 500:
        return "server_error"
    return {429: "rate_limit_error", 401: "authentication_error"}.get(
        status, "invalid_request_error"
    )
