"""The errors that the HTTP side raises on purpose.

PenstockError
├── ConfigError            the environment is wrong; the process does not start
└── Refusal                a request that is answered without reaching the engine
    ├── BadInput           400  names field, value and remedy
    │   └── BrokenBody     400  likewise, and closes the connection
    ├── Unauthenticated    401  no API key that is known
    ├── UnknownModel       404
    ├── BodyTimeout        408  the body did not arrive in time
    ├── TooLarge           413
    ├── UnsupportedCoding  415  a Content-Encoding that nobody speaks
    ├── QueueFull          429  with Retry-After
    │   └── MemoryFull     429  likewise, by bytes instead of requests
    ├── RateExceeded       429  by this key alone, with Retry-After
    ├── TooLate            429  the predicted wait exceeds the deadline
    └── NotServing         503  loading, draining or dead, with Retry-After
"""

from typing import ClassVar


class PenstockError(Exception):
    """The base of all below."""


class ConfigError(PenstockError):
    """The environment is wrong; the message names the variable."""


class Refusal(PenstockError):
    """A request that is refused before admission, and how its client is told."""

    status: ClassVar[int] = 400
    reason: str = "BadInput"
    """The label value of `penstock_requests_refused_total`."""
    closes: ClassVar[bool] = False
    """Whether the connection cannot be used again (an unread body may follow)."""

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_seconds = retry_after_seconds


class BadInput(Refusal):
    """The request itself is wrong; the field says where."""


class BrokenBody(BadInput):
    """The body's chunks or compression are broken, so nobody knows where it ends."""

    closes = True


class Unauthenticated(Refusal):
    """No API key, or none that is known."""

    status = 401
    reason = "Unauthenticated"


class UnknownModel(Refusal):
    """No such model or version here."""

    status = 404
    reason = "UnknownModel"


class BodyTimeout(Refusal):
    """The client was too slow with its body."""

    status = 408
    reason = "BodyTimeout"
    closes = True


class TooLarge(Refusal):
    """The body is larger than this pod accepts; where its length says so, it is not read."""

    status = 413
    reason = "TooLarge"
    closes = True


class UnsupportedCoding(Refusal):
    """The body is compressed in a way that is not spoken here."""

    status = 415
    reason = "UnsupportedCoding"


class QueueFull(Refusal):
    """As many requests wait as `maxQueueDepth` allows."""

    status = 429
    reason = "QueueFull"


class MemoryFull(QueueFull):
    """What is held of requests fills the memory set apart for them."""

    reason = "MemoryFull"


class RateExceeded(Refusal):
    """The requests of one key come faster than it may send them."""

    status = 429
    reason = "RateExceeded"


class TooLate(Refusal):
    """It would expire before its batch begins, so it is told at once."""

    status = 429
    reason = "DeadlineUnreachable"


class NotServing(Refusal):
    """This pod takes no requests now; another may."""

    status = 503

    def __init__(self, reason: str, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.reason = reason
