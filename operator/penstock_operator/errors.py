"""The operator's own exceptions.

PenstockError
├── ConfigError            the environment or kubeconfig is wrong: the operator does not start
├── NotLeading             a write was held back: the Lease is not (or no longer) ours
└── ClusterError           an answer of the API server, with status, reason and message
    ├── NotFound           404
    ├── Conflict           409: somebody else wrote first; look again
    ├── Rejected           400, 403, 413, 422: asking again unchanged will not help
    └── Unavailable        429, 5xx, no answer: asking again later may help
"""

import json
from typing import Any


class OperatorError(Exception):
    """Anything the operator raises on purpose."""


class OperatorConfigError(OperatorError):
    """The configuration names a field that is missing, unknown or out of range."""


class NotLeading(OperatorError):
    """A write was held back because the Lease is not ours."""


class ClusterError(OperatorError):
    """An answer of the API server that is not a success (meta/v1, `Status`)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class ObjectNotFound(ClusterError):
    """The object or its kind does not exist."""


class Conflict(ClusterError):
    """The object exists already, or changed since it was read."""


class Rejected(ClusterError):
    """The API server understood the request and refuses it."""


class Unavailable(ClusterError):
    """The API server cannot answer now."""


def cluster_error(status: int, body: bytes) -> ClusterError:
    """Return the error for a non-2xx answer; `body` is a meta/v1 `Status` in JSON, or anything."""
    said = _status_object(body)
    reason = str(said.get("reason") or f"Http{status}")
    message = str(said.get("message") or body[:512].decode(errors="replace") or "no message")
    return _kind_of(status)(status, reason, message)


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _kind_of(status: int) -> type[ClusterError]:
    if status in (404, 410):
        return ObjectNotFound
    if status == 409:
        return Conflict
    return Unavailable if status == 429 or status >= 500 else Rejected
