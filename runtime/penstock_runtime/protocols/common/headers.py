"""Parsing of numeric header fields, the same for every protocol."""

from typing import Final

from aiohttp import web

from penstock_runtime.errors import BadInput

HEADER_TIMEOUT: Final = "X-Request-Timeout-Ms"
MAX_MILLISECONDS: Final = 2**53 - 1
"""The largest integer up to which a float represents each one."""


def parse_integer(text: str, maximum: int) -> int | None:
    """Return the number in a text of ASCII digits; None for any other text, or a number above `maximum`."""
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(maximum)):
        return None
    number = int(digits or "0")
    return number if number <= maximum else None


def header_seconds(request: web.Request) -> float | None:
    """Return `X-Request-Timeout-Ms` in seconds; None if it is not sent.

    Raises:
        BadInput: it is not an integer number of milliseconds above 0.
    """
    text = request.headers.get(HEADER_TIMEOUT)
    if text is None:
        return None
    milliseconds = parse_integer(text, MAX_MILLISECONDS)
    if not milliseconds:
        raise BadInput(
            f"{HEADER_TIMEOUT} must be an integer number of milliseconds above 0, got {text[:40]!r}",
            field=HEADER_TIMEOUT,
        )
    return milliseconds / 1000
