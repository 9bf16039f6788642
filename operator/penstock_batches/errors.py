"""Errors of the batch service.

BatchesError
├── BatchesConfigError   a setting is missing, unknown or out of range
├── StoreUnavailable     the store cannot be reached or written: submissions get 503, dispatch waits
├── VolumeFull           the volume of payloads has no room
├── AnswerTooLarge       a pool's answer to a line has more bytes than are kept
├── StateConflict        the object changed since it was read: read it again
├── IllegalTransition    a batch may not go from its status to the requested one
└── ApiError             the answer to a request is an error
"""


class BatchesError(Exception):
    """Base of all errors of the batch service."""


class BatchesConfigError(BatchesError):
    """A setting is missing, unknown or out of range; the message names it."""


class StoreUnavailable(BatchesError):
    """The store cannot be reached or written; what it last accepted stays in force."""


class VolumeFull(BatchesError):
    """The volume of payloads has no room."""


class AnswerTooLarge(BatchesError):
    """A pool's answer to a line has more bytes than are kept; the message has the bound."""


class StateConflict(BatchesError):
    """The object changed since it was read."""


class IllegalTransition(BatchesError):
    """A batch may not go from its status to the requested one; the message names both."""


class ApiError(BatchesError):
    """An error in OpenAI's format: `param` is the field, `code` one of OpenAI's where it has one."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_seconds = retry_after_seconds
