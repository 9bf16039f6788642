"""Header fields that hold a number, read alike by every protocol."""

from typing import Final

from aiohttp import web

from penstock_runtime.errors import BadInput

HEADER_TIMEOUT: Final = "X-Request-Timeout-Ms"
MAX_MILLISECONDS: Final = 2**53 - 1
"""A float still counts them one by one."""


def parse_integer(text: str, most: int) -> int | None:
    """Return the number that ASCII digits spell; None where `text` holds anything else, or more than `most`."""
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(most)):
        return None
    number = int(digits or "0")
    return number if number <= most else None


def header_seconds(request: web.Request) -> float | None:
    """Return the time that `X-Request-Timeout-Ms` allows, in seconds; None where it is not sent.

    Raises:
        BadInput: it is no whole number of milliseconds above 0.
    """
    text = request.headers.get(HEADER_TIMEOUT)
    if text is None:
        return None
    milliseconds = parse_integer(text, MAX_MILLISECONDS)
    if not milliseconds:
        raise BadInput(
            f"{HEADER_TIMEOUT} {text[:40]!r} must be a whole number of milliseconds above 0",
            field=HEADER_TIMEOUT,
        )
    return milliseconds / 1000
