"""The id that names a request in its answer and in the logs: the client's own `X-Request-Id`, or one of ours."""

import re
import secrets
from itertools import count
from typing import Final

HEADER_REQUEST_ID: Final = "X-Request-Id"
_GIVEN: Final = re.compile(r"[\x21-\x7e]{1,128}")


class RequestIds:
    """32 hexadecimal digits: 16 drawn once a process, 16 counted. Drawing each would cost a system call."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = count(secrets.randbits(32))

    def new(self) -> str:
        """Return an id that nobody else has."""
        return f"{self._prefix}{next(self._numbers):016x}"

    def choose(self, given: str) -> str:
        """Return the client's id if it is printable and short, else a new one."""
        return given if _GIVEN.fullmatch(given) else self.new()
