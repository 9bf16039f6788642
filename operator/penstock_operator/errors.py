"""Exceptions of the operator.

OperatorError
├── OperatorConfigError    the environment or kubeconfig is wrong: the operator does not start
├── NotLeading             a write was not sent: this process does not hold the Lease
└── ClusterError           an error response of the API server, with status, reason and message
    ├── ObjectNotFound     404, 410
    ├── Conflict           409: another writer was first; read the object again
    ├── Rejected           400, 403, 413, 422: the same request will be rejected again
    │   └── Altered        2xx: the API server stored other values, and will again
    └── Unavailable        429, 5xx, no response: the same request may succeed later
"""

import json
from collections.abc import Mapping
from typing import Any


class OperatorError(Exception):
    """Base of the operator's exceptions."""


class OperatorConfigError(OperatorError):
    """A setting is missing, unknown or out of range."""


class NotLeading(OperatorError):
    """A write was not sent because this process does not hold the Lease."""


class ClusterError(OperatorError):
    """An error response of the API server (meta/v1 `Status`)."""

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
    """The API server rejects the request."""


class Altered(Rejected):
    """A mutating webhook replaced a value of the request."""

    def __init__(self, reason: str, message: str, stored: Mapping[str, Any]) -> None:
        super().__init__(200, reason, message)
        self.stored = stored


class Unavailable(ClusterError):
    """The API server is overloaded or cannot be reached."""


def cluster_error(status: int, body: bytes) -> ClusterError:
    """Return the error for a non-2xx response; `body` need not be a meta/v1 `Status`."""
    fields = _status_object(body)
    reason = str(fields.get("reason") or f"Http{status}")
    message = str(fields.get("message") or body[:512].decode(errors="replace") or "no message")
    return _error_class(status)(status, reason, message)


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _error_class(status: int) -> type[ClusterError]:
    if status in (404, 410):
        return ObjectNotFound
    if status == 409:
        return Conflict
    return Unavailable if status == 429 or status >= 500 else Rejected
