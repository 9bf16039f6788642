"""Fields of requests that several routes have: pages, expiry, metadata and durations; pure."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from penstock_batches.errors import ApiError

WINDOW: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])", re.ASCII)
UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MIN_WINDOW: Final = 1
MAX_WINDOW: Final = 30 * 86_400
MIN_EXPIRY: Final = 3600
MAX_EXPIRY: Final = 2_592_000
MAX_METADATA: Final = 16


def invalid(param: str, rule: str, value: object) -> ApiError:
    """Return the error of a field: what it must be, and what it is."""
    return ApiError(
        400, f"{param} must be {rule}, got {repr(value)[:80]}", param=param, code="invalid_value"
    )


def limit(query: Mapping[str, str], most: int, default: int) -> int:
    """Return the size of a page.

    Raises:
        ApiError: the value is not an integer from 1 to `most`.
    """
    text = query.get("limit", str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most):
        raise invalid("limit", f"an integer from 1 to {most}", text)
    return int(text)


def window_seconds(value: object, param: str = "completion_window") -> int:
    """Return the seconds of a completion window, such as 24h.

    Raises:
        ApiError: it is no duration, or out of range.
    """
    match = WINDOW.fullmatch(value) if isinstance(value, str) else None
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not MIN_WINDOW <= seconds <= MAX_WINDOW:
        raise invalid(param, "a duration from 1s to 30d, such as 24h", value)
    return seconds


def expiry_seconds(value: object, param: str) -> float | None:
    """Return the seconds of `{"anchor": "created_at", "seconds": N}`; None if it is unset.

    Raises:
        ApiError: it has another form, or is out of range.
    """
    if value is None:
        return None
    anchor = value.get("anchor") if isinstance(value, Mapping) else None
    if anchor != "created_at":
        raise invalid(f"{param}.anchor", "created_at", anchor)
    seconds: Any = value.get("seconds")  # type: ignore[attr-defined]  # a mapping, as its anchor shows
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < 9:
        seconds = int(seconds)
    if type(seconds) is not int or not MIN_EXPIRY <= seconds <= MAX_EXPIRY:
        raise invalid(f"{param}.seconds", f"an integer from {MIN_EXPIRY} to {MAX_EXPIRY}", seconds)
    return float(seconds)


def metadata(value: object) -> dict[str, str] | None:
    """Return the metadata of a batch.

    Raises:
        ApiError: the value is not a map of at most 16 short texts.
    """
    if value is None:
        return None
    rule = (
        f"an object of at most {MAX_METADATA} texts, keys up to 64 and values up to 512 characters"
    )
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise invalid("metadata", rule, value)
    for key, text in value.items():
        if not isinstance(text, str) or len(key) > 64 or len(text) > 512:
            raise invalid(f"metadata.{key[:64]}", "a text of at most 512 characters", text)
    return dict(value)


def webhook(url: str, allowed: str, param: str) -> None:
    """Check the URL of a webhook; `allowed` has the hosts that may be called, as `HOST` or `HOST:PORT` by commas.

    Raises:
        ApiError: it is not the URL of an allowed host.
    """
    hosts = [host.strip().lower() for host in allowed.split(",") if host.strip()]
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "").lower()
        host = address if parts.port is None else f"{address}:{parts.port}"
    except ValueError:
        raise invalid(param, "an http or https URL", url) from None
    if parts.scheme not in ("http", "https") or parts.username is not None or len(url) > 2048:
        raise invalid(param, "an http or https URL of at most 2048 characters without user", url)
    if host not in hosts:
        known = ", ".join(hosts) or "none: the administrator names them in PENSTOCK_WEBHOOK_HOSTS"
        raise invalid(param, f"a URL of an allowed host ({known})", url)
