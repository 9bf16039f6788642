"""The parser of plain request heads, with a cache: a client repeats its head byte for byte, so most cost one look-up.

`hinted_class` guesses the priority in a body without parsing it: enough to reject by, not to serve by.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from penstock_api import names
from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS, priority_class
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES

MAX_HEAD_BYTES: Final = 8000
"""The longest head that is parsed here; aiohttp's limits are a little higher, and aiohttp enforces them."""
_MAX_LINES: Final = 66
_FOLDED: Final = re.compile(rb"\n[ \t]")
_MAX_CACHED_HEADS: Final = 512

_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,15}")
_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")
_MILLISECONDS: Final = re.compile(rb"[1-9][0-9]{0,14}")
_BODILESS: Final = frozenset((b"GET", b"HEAD", b"OPTIONS"))
GATEWAY: Final = names.HEADER_GATEWAY.encode()
_ONCE: Final = frozenset(
    (
        b"accept-encoding",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"expect",
        b"host",
        b"inference-header-content-length",
        b"traceparent",
        b"transfer-encoding",
        b"upgrade",
        GATEWAY,
        b"x-request-id",
        b"x-request-timeout-ms",
    )
)
"""Fields that affect the handling of a request: a head that repeats one is not plain."""


class RequestHead(Struct, frozen=True):
    """The head of a request whose last byte is known."""

    length: int
    """The length of the body in bytes."""
    target: str | None
    """The path; None where aiohttp answers the request, as it does for JSON that it decodes in a thread."""
    header_length: str | None = None
    """The length of the body's JSON (`Inference-Header-Content-Length`)."""
    request_id: str | None = None
    timeout_seconds: float | None = None
    trace_parent: str | None = None
    balanced: bool = False
    """Whether a gateway sent it, which balances requests: its connection does not age."""


class HeadParser:
    """Parses heads and caches the results."""

    def __init__(self, targets: Iterable[str]) -> None:
        """`targets` are the paths that the fast path answers."""
        self._targets = frozenset(target.encode() for target in targets)
        self._parsed: dict[bytes, RequestHead | None] = {}

    def parse(self, head: bytes) -> RequestHead | None:
        """Return the parsed `head`, whose empty line is included; None where its meaning is not certain."""
        try:
            return self._parsed[head]
        except KeyError:
            pass
        if len(self._parsed) >= _MAX_CACHED_HEADS:
            self._parsed.clear()
        parsed = self._parsed[head] = parse(head, self._targets.__contains__)
        return parsed


class _Collector:
    """What llhttp reports of one head."""

    __slots__ = ("complete", "fields", "repeats", "target")

    def __init__(self) -> None:
        self.target = b""
        self.fields: dict[bytes, bytes] = {}
        """The relevant fields by lower-case name."""
        self.repeats = False
        """Whether a relevant field is repeated."""
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _ONCE:
            self.repeats = self.repeats or name in self.fields
            self.fields[name] = value.strip(b" \t")

    def on_headers_complete(self) -> None:
        self.complete = True


def parse(head: bytes, is_target: Callable[[bytes], bool]) -> RequestHead | None:
    """Return the parsed `head`, or None; `is_target` decides which paths the fast path answers."""
    if len(head) > MAX_HEAD_BYTES or not _is_usual(head):
        return None
    collector = _Collector()
    parser = HttpRequestParser(collector)
    try:
        parser.feed_data(head)
    except (HttpParserError, HttpParserUpgrade):
        return None
    fields, method = collector.fields, parser.get_method()
    if not collector.complete or collector.repeats or parser.get_http_version() != "1.1":
        return None
    length = fields.get(b"content-length")
    if not _is_framed(fields) or (length is None and method not in _BODILESS):
        return None
    size = int(length) if length is not None else 0
    target = collector.target
    is_plain = _is_plain(fields) and _json_bytes(target, fields, size) <= SMALL_BYTES
    if method != b"POST" or not is_target(target) or not is_plain:
        return RequestHead(size, None)
    return RequestHead(
        size,
        target.decode(),
        _text(fields.get(b"inference-header-content-length")),
        _text(_matching(_REQUEST_ID, fields.get(b"x-request-id"))),
        _seconds(fields.get(b"x-request-timeout-ms")),
        _text(fields.get(b"traceparent")),
        GATEWAY in fields,
    )


def _is_usual(head: bytes) -> bool:
    """Return whether a head has none of the rare parts that llhttp accepts: bytes beyond ASCII, folded or too many lines."""
    return head.isascii() and not _FOLDED.search(head) and head.count(b"\n") <= _MAX_LINES


def _is_framed(fields: dict[bytes, bytes]) -> bool:
    """Return whether the end of the request is certain, and the connection stays open and in HTTP/1.1 after it."""
    return (
        b"host" in fields
        and not fields.keys() & {b"transfer-encoding", b"upgrade", b"expect"}
        and _LENGTH.fullmatch(fields.get(b"content-length", b"0")) is not None
        and fields.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    )


def _is_plain(fields: dict[bytes, bytes]) -> bool:
    wait = fields.get(b"x-request-timeout-ms")
    header_length = fields.get(b"inference-header-content-length")
    return (
        fields.get(b"content-encoding", b"").lower() in (b"", b"identity")
        and fields.get(b"accept-encoding", b"").lower() not in (b"gzip", b"deflate")
        and (wait is None or _MILLISECONDS.fullmatch(wait) is not None)
        and (header_length is None or _LENGTH.fullmatch(header_length) is not None)
    )


def _json_bytes(target: bytes, fields: dict[bytes, bytes], size: int) -> int:
    """Return the length of the JSON in a body of `size` bytes; only `infer` has binary data after it."""
    if not target.endswith(b"/infer"):
        return size
    return int(fields.get(b"inference-header-content-length", size))


def _matching(pattern: re.Pattern[bytes], value: bytes | None) -> bytes | None:
    return value if value is not None and pattern.fullmatch(value) else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii")


def _seconds(milliseconds: bytes | None) -> float | None:
    return None if milliseconds is None else int(milliseconds) / 1000


_NAME: Final = b'"priority"'
_VALUE: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*([0-9]{1,9})")


def hinted_class(body: bytes, header_length: str | None) -> int:
    """Return the priority class that a body seems to request; the lowest where it has none that is easy to read.

    `header_length` is the length of the JSON before binary data.
    """
    end = len(body) if header_length is None else int(header_length)
    at = body.find(_NAME, 0, end)
    match = None if at < 0 else _VALUE.match(body, at + len(_NAME))
    return LOWEST_CLASS if match is None else priority_class(int(match[1]))
