"""Exceptions of the runtime, and `shown`, which abbreviates a client's value for an error message.

PenstockError
├── ConfigError             invalid environment; the process does not start
└── RequestRejected         a request that is answered without reaching the engine
    ├── BadInput            400  names field, value and remedy
    │   ├── BrokenJson      400  the body is not JSON
    │   ├── BrokenBody      400  broken framing or compression; closes the connection
    │   └── ContextExceeded 400  more tokens than the model's context
    ├── Unauthenticated     401  no known API key
    ├── UnknownModel        404
    ├── OtherModel          409  a generation of another pod, which has another model
    ├── BodyTimeout         408  the body did not arrive in time
    ├── TooLarge            413
    ├── UnsupportedCoding   415  unsupported Content-Encoding
    ├── QueueFull           429  with Retry-After
    │   ├── BatchWorkWaits  429  batch work has its share of the queue
    │   └── MemoryFull      429  by bytes instead of requests
    ├── RateExceeded        429  rate limit of one key, with Retry-After
    ├── DeadlineTooNear     429  the predicted wait exceeds the deadline
    ├── ConnectionsFull     503  every connection has a request in flight, with Retry-After
    ├── DeadlinePassed      504  the deadline passed while the request was prepared
    ├── NotServing          503  loading, draining or dead, with Retry-After
    ├── Unrouted            404 or 405: no such path, or wrong method
    └── Defect              500  internal error
"""

from reprlib import Repr
from typing import Any, ClassVar, Final


class PenstockError(Exception):
    """Base class of all exceptions of this module."""


class ConfigError(PenstockError):
    """Invalid environment; the message names the variable."""


class RequestRejected(PenstockError):
    """A request that is rejected before admission, with the fields of its error response."""

    status: int = 400
    reason: str = "BadInput"
    """Label value of `penstock_requests_refused_total`."""
    code: str | None = None
    """Error code in OpenAI's API."""
    closes: ClassVar[bool] = False
    """Whether the connection must be closed (an unread body may follow)."""

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_seconds = retry_after_seconds


class BadInput(RequestRejected):
    """Invalid request; `field` names the position."""

    code: str | None = "invalid_value"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message, field=field)
        self.code = code or self.code


class ContextExceeded(BadInput):
    """Prompt and answer exceed the context length of the model."""

    code = "context_length_exceeded"


class BrokenJson(BadInput):
    """The body is not JSON."""

    code = None


class BrokenBody(BadInput):
    """Broken chunks or compression: the end of the body is unknown."""

    code = None

    closes = True


class Unauthenticated(RequestRejected):
    """No API key, or an unknown one."""

    status = 401
    reason = "Unauthenticated"
    code = "invalid_api_key"


class UnknownModel(RequestRejected):
    """No such model or version in this pod."""

    status = 404
    reason = "UnknownModel"
    code = "model_not_found"


class OtherModel(RequestRejected):
    """A generation that a pod with another model began."""

    status = 409
    reason = "OtherModel"


class BodyTimeout(RequestRejected):
    """The body did not arrive in time."""

    status = 408
    reason = "BodyTimeout"
    closes = True


class TooLarge(RequestRejected):
    """The body exceeds the size limit; it is not read if its Content-Length shows so."""

    status = 413
    reason = "TooLarge"
    closes = True


class UnsupportedCoding(RequestRejected):
    """The body has an unsupported Content-Encoding."""

    status = 415
    reason = "UnsupportedCoding"


class QueueFull(RequestRejected):
    """`maxQueueDepth` requests are waiting."""

    status = 429
    reason = "QueueFull"
    code = "rate_limit_exceeded"


class BatchWorkWaits(QueueFull):
    """Batch work has its share of the queue; the rest is for requests that cannot wait."""

    reason = "BatchWorkWaits"


class MemoryFull(QueueFull):
    """The memory for requests is exhausted."""

    reason = "MemoryFull"


class RateExceeded(RequestRejected):
    """The rate limit of one key is exceeded."""

    status = 429
    reason = "RateExceeded"
    code = "rate_limit_exceeded"


class DeadlineTooNear(RequestRejected):
    """The request would expire before its batch starts, and is rejected immediately."""

    status = 429
    reason = "DeadlineUnreachable"
    code = "rate_limit_exceeded"


class DeadlinePassed(RequestRejected):
    """The deadline passed while the prompt was encoded or the grammar was compiled."""

    status = 504
    reason = "Expired"


class ConnectionsFull(RequestRejected):
    """The connection limit is reached, and each connection has a request in flight."""

    status = 503
    reason = "ConnectionsFull"
    closes = True


class NotServing(RequestRejected):
    """This pod accepts no requests now; another pod may."""

    status = 503

    def __init__(self, reason: str, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.reason = reason


class Unrouted(RequestRejected):
    """No such path, or wrong method, from aiohttp's router."""

    reason = "Unrouted"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = {404: "unknown_url", 405: "method_not_supported"}.get(status)


class Defect(RequestRejected):
    """An internal error, which is logged."""

    status = 500
    reason = "Defect"

    def __init__(self) -> None:
        super().__init__("internal error: the log of this pod has it under the X-Request-Id")


MAX_CHARACTERS: Final = 80

_SHORT: Final = Repr()
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxdict = 16
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 2 * MAX_CHARACTERS


def shown(value: Any, limit: int = MAX_CHARACTERS) -> str:
    """Return an abbreviated `repr` of at most `limit` characters; depth and width are bounded as well."""
    return _SHORT.repr(value)[:limit]
