"""What the parts of a client's request leave on it for each other."""

from typing import Any, Final

from aiohttp import web

from penstock_runtime.errors import RequestRejected
from penstock_runtime.serving.auth.callers import Caller

CALLER: Final = web.RequestKey("caller", Caller)
"""Who calls, where this pod asks."""
LAST: Final = web.RequestKey("last", bool)
"""Whether its answer is to be the connection's last: a stream must say so before it begins."""
LOGGED: Final = web.RequestKey("logged", dict[str, Any])
"""What a protocol adds to the request's line in the access log."""


def best_class(request: web.Request) -> int:
    """Return the best class that `request` can have, by its caller alone; 0 where only its body may ask for one."""
    caller = request.get(CALLER)
    return 0 if caller is None else caller.granted_priority(None)


def record_refusal(request: web.Request, refusal: RequestRejected) -> None:
    """Leave for the access log that `request` was refused, and why."""
    request[LOGGED] = {"outcome": "Refused", "reason": refusal.reason}
