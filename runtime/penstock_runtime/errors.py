"""The errors that the HTTP side raises on purpose.

PenstockError
├── ConfigError            the environment is wrong; the process does not start
└── Refusal                a request that is answered without reaching the engine
    ├── BadInput           400  names field, value and remedy
    │   ├── BrokenJson     400  the body is no JSON
    │   ├── BrokenBody     400  likewise, and closes the connection
    │   └── ContextExceeded 400 more tokens than the model holds
    ├── Unauthenticated    401  no API key that is known
    ├── UnknownModel       404
    ├── BodyTimeout        408  the body did not arrive in time
    ├── TooLarge           413
    ├── UnsupportedCoding  415  a Content-Encoding that nobody speaks
    ├── QueueFull          429  with Retry-After
    │   └── MemoryFull     429  likewise, by bytes instead of requests
    ├── RateExceeded       429  by this key alone, with Retry-After
    ├── TooLate            429  the predicted wait exceeds the deadline
    ├── ConnectionsFull    503  every connection has a request in flight, with Retry-After
    ├── NotServing         503  loading, draining or dead, with Retry-After
    ├── Unrouted           404 or 405: no such path, or not by this method
    └── Defect             500  a fault of this program

A client's value as an error message shows it: bounded in depth and width, so that neither its text nor its cost is.
"""

from reprlib import Repr
from typing import Any, ClassVar, Final


class PenstockError(Exception):
    """The base of all below."""


class ConfigError(PenstockError):
    """The environment is wrong; the message names the variable."""


class RequestRejected(PenstockError):
    """A request that is refused before admission, and how its client is told."""

    status: int = 400
    reason: str = "BadInput"
    """The label value of `penstock_requests_refused_total`."""
    code: str | None = None
    """The error code that OpenAI's API has for it."""
    closes: ClassVar[bool] = False
    """Whether the connection cannot be used again (an unread body may follow)."""

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_seconds = retry_after_seconds


class BadInput(RequestRejected):
    """The request itself is wrong; the field says where."""

    code: str | None = "invalid_value"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message, field=field)
        self.code = code or self.code


class ContextExceeded(BadInput):
    """Prompt and answer would have more tokens than the model holds."""

    code = "context_length_exceeded"


class BrokenJson(BadInput):
    """The body is no JSON."""

    code = None


class BrokenBody(BadInput):
    """The body's chunks or compression are broken, so nobody knows where it ends."""

    code = None

    closes = True


class Unauthenticated(RequestRejected):
    """No API key, or none that is known."""

    status = 401
    reason = "Unauthenticated"
    code = "invalid_api_key"


class UnknownModel(RequestRejected):
    """No such model or version here."""

    status = 404
    reason = "UnknownModel"
    code = "model_not_found"


class BodyTimeout(RequestRejected):
    """The client was too slow with its body."""

    status = 408
    reason = "BodyTimeout"
    closes = True


class TooLarge(RequestRejected):
    """The body is larger than this pod accepts; where its length says so, it is not read."""

    status = 413
    reason = "TooLarge"
    closes = True


class UnsupportedCoding(RequestRejected):
    """The body is compressed in a way that is not spoken here."""

    status = 415
    reason = "UnsupportedCoding"


class QueueFull(RequestRejected):
    """As many requests wait as `maxQueueDepth` allows."""

    status = 429
    reason = "QueueFull"
    code = "rate_limit_exceeded"


class MemoryFull(QueueFull):
    """What is held of requests fills the memory set apart for them."""

    reason = "MemoryFull"


class RateExceeded(RequestRejected):
    """The requests of one key come faster than it may send them."""

    status = 429
    reason = "RateExceeded"
    code = "rate_limit_exceeded"


class DeadlineTooNear(RequestRejected):
    """It would expire before its batch begins, so it is told at once."""

    status = 429
    reason = "DeadlineUnreachable"
    code = "rate_limit_exceeded"


class ConnectionsFull(RequestRejected):
    """As many connections are open as this pod bears, each with a request in flight."""

    status = 503
    reason = "ConnectionsFull"
    closes = True


class NotServing(RequestRejected):
    """This pod takes no requests now; another may."""

    status = 503

    def __init__(self, reason: str, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.reason = reason


class Unrouted(RequestRejected):
    """What aiohttp's router answers: no such path, or not by this method."""

    reason = "Unrouted"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = {404: "unknown_url", 405: "method_not_supported"}.get(status)


class Defect(RequestRejected):
    """A fault of this program, which the log has."""

    status = 500
    reason = "Defect"

    def __init__(self) -> None:
        super().__init__("internal error: the log of this pod has it under the X-Request-Id")


MAX_CHARACTERS: Final = 80

_SHORT: Final = Repr()
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxdict = 16
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 2 * MAX_CHARACTERS


def shown(value: Any, most: int = MAX_CHARACTERS) -> str:
    """Return at most `most` characters of what `repr` would write: it would recurse, or write megabytes first."""
    return _SHORT.repr(value)[:most]
