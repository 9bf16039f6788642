"""Request keys that handlers share, and helpers that use them."""

from typing import Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web

from penstock_api import names
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS, HIGHEST_CLASS
from penstock_runtime.errors import RequestRejected
from penstock_runtime.protocols.common.replies import REQUEST_ID
from penstock_runtime.protocols.common.request_ids import HEADER_REQUEST_ID, HEADER_TRACE_PARENT
from penstock_runtime.serving.auth.callers import ANYBODY, HEADER_PRIORITY, Caller

CALLER: Final = web.RequestKey("caller", Caller)
"""The caller, on a pod that authenticates."""
LAST: Final = web.RequestKey("last", bool)
"""Whether its answer is the connection's last: a stream sends that in its head."""
LOGGED: Final = web.RequestKey("logged", dict[str, Any])
"""The fields that a protocol adds to the request's line in the access log."""

_IDENTIFYING: Final = (
    hdrs.AUTHORIZATION,
    "X-Api-Key",
    HEADER_PRIORITY,
    names.HEADER_TENANT,
    HEADER_TRACE_PARENT,
)


def best_class(request: web.Request) -> int:
    """Return the best priority class that `request` may have: the highest if only its body sets one."""
    return granted_class(request, None) or HIGHEST_CLASS


def claimed_class(request: web.Request) -> int:
    """Return the class of `request` as far as its head shows it, to count it by: any client may claim to be batch work."""
    claims = request.headers.get(HEADER_PRIORITY) == str(BATCH_CLASS)
    return BATCH_CLASS if claims else granted_class(request, None)


def granted_class(request: web.Request, requested: int | None) -> int:
    """Return the priority class of `request`, whose body sets `requested`; as `Caller.granted_priority`."""
    caller: Caller = request.get(CALLER, ANYBODY)
    return caller.granted_priority(requested)


def tenant_header(request: web.Request) -> dict[str, str]:
    """Return the header of an answer that names the tenant of its request, for gateways that count; empty without one."""
    caller = request.get(CALLER)
    if caller is None or not caller.tenant:
        return {}
    return {names.HEADER_TENANT: quote(caller.tenant, safe=" :@")}


def client_headers(request: web.Request) -> dict[str, str]:
    """Return the headers with which another pod identifies the client of `request`, and logs its id."""
    kept = {name: request.headers[name] for name in _IDENTIFYING if name in request.headers}
    return {**kept, HEADER_REQUEST_ID: request.get(REQUEST_ID, "")}


def record_rejection(request: web.Request, rejection: RequestRejected) -> None:
    """Store the reason of a rejection for the access log."""
    request[LOGGED] = {"outcome": "Rejected", "reason": rejection.reason}
