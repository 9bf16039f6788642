"""What the parts of a client's request leave on it for each other."""

from typing import Any, Final

from aiohttp import web

from penstock_runtime.callers.callers import Caller
from penstock_runtime.errors import Refusal

CALLER: Final = web.RequestKey("caller", Caller)
"""Who calls, where this pod asks."""
LAST: Final = web.RequestKey("last", bool)
"""Whether its answer is to be the connection's last: a stream must say so before it begins."""
LOGGED: Final = web.RequestKey("logged", dict[str, Any])
"""What a protocol adds to the request's line in the access log."""


def note_refusal(request: web.Request, refusal: Refusal) -> None:
    """Leave for the access log that `request` was refused, and why."""
    request[LOGGED] = {"outcome": "Refused", "reason": refusal.reason}
