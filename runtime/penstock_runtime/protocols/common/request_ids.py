"""Request ids and trace ids for the logs: the client's own `X-Request-Id` or a generated one, and its `traceparent`."""

import re
import secrets
from itertools import count
from typing import Final

HEADER_REQUEST_ID: Final = "X-Request-Id"
HEADER_TRACE_PARENT: Final = "traceparent"
_GIVEN: Final = re.compile(r"[\x21-\x7e]{1,128}")
_TRACE: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


class RequestIds:
    """Generates ids of 32 hexadecimal digits: 16 random per process, 16 counted. A random id each would cost a system call."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = count(2**63 + secrets.randbits(32))
        """They start at 2**63, so that all have 16 digits without padding."""

    def new(self) -> str:
        """Return a unique id."""
        return f"{self._prefix}{next(self._numbers):x}"

    def choose(self, given: str) -> str:
        """Return the client's id if it is printable and short, else a new one."""
        return given if _GIVEN.fullmatch(given) else self.new()


def trace_of(parent: str | None) -> dict[str, str]:
    """Return the ids of the trace and of the caller's span by W3C Trace Context; empty without a valid `traceparent`."""
    match = _TRACE.fullmatch(parent) if parent else None
    return {} if match is None else {"trace_id": match[1], "parent_span_id": match[2]}
