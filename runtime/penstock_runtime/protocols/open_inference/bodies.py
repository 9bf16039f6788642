"""Request bodies: read within bounds of bytes and time, and split into JSON header and binary tensors."""

import asyncio
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic_core import from_json

from penstock_runtime.errors import (
    BadInput,
    BodyTimeout,
    BrokenBody,
    BrokenJson,
    TooLarge,
    UnsupportedCoding,
)
from penstock_runtime.protocols.common.headers import parse_integer
from penstock_runtime.protocols.common.json_structure import (
    PLAIN,
    SMALL_BYTES,
    put_back,
    structure_of,
    without,
)
from penstock_runtime.protocols.open_inference.decompression import Inflater

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
FIRST_BYTES: Final = 64 * 2**10
"""Size counted for a body until more of it arrives, unless it announces less."""
TURN_SECONDS: Final = 0.002
"""Time of decompression after which other tasks have a turn."""
_COMPRESSED: Final = frozenset(("gzip", "deflate"))
_CODINGS: Final = _COMPRESSED | {"", "identity"}


def check_head(request: web.Request, max_bytes: int) -> None:
    """Reject by its headers a body that would not be read to its end.

    Raises:
        TooLarge: `Content-Length` exceeds `max_bytes`.
        UnsupportedCoding: the body is neither plain nor gzip nor deflate.
    """
    length = request.content_length
    if length is not None and length > max_bytes:
        raise _too_large(str(length), max_bytes)
    coding = _coding(request)
    if coding not in _CODINGS:
        raise UnsupportedCoding(
            f"Content-Encoding {coding!r} is not supported: send gzip, deflate or identity",
            field=hdrs.CONTENT_ENCODING,
        )


async def read(
    request: web.Request, max_bytes: int, seconds: float, hold: Callable[[int], None]
) -> bytearray:
    """Return the decompressed body; a client with `Expect: 100-continue` gets its 100 here and not before.

    `hold` counts the body's memory: briefly the announced length, to reject a body that does not fit before it is sent;
    then the bytes that have arrived, because an announcement costs a client nothing; finally the decompressed size.

    Raises:
        MemoryFull: the memory for requests is full, as `hold` finds.
        TooLarge: it exceeds `max_bytes` after decompression; the rest is not decompressed.
        BodyTimeout: it is not complete within `seconds`.
        BrokenBody: the compression or the chunks are invalid or truncated.
    """
    announced = request.content_length or FIRST_BYTES
    hold(announced)
    hold(counted := min(announced, FIRST_BYTES))
    await _continue(request)
    body = bytearray()

    def take(piece: bytes) -> None:
        nonlocal counted
        size = len(body) + len(piece)
        if size > max_bytes:
            raise _too_large(f"more than {max_bytes}", max_bytes)
        if size > counted:
            hold(counted := size)
        body.extend(piece)

    try:
        async with asyncio.timeout(seconds):
            await _read_pieces(request, take)
    except TimeoutError as error:
        raise BodyTimeout(
            f"the body did not arrive within {seconds:g} s: send it faster"
        ) from error
    except (web.RequestPayloadError, HttpProcessingError, zlib.error) as error:
        raise BrokenBody(
            f"the body cannot be decoded ({error}): check Content-Encoding and chunks", field="body"
        ) from error
    hold(len(body))
    return body


async def _read_pieces(request: web.Request, take: Callable[[bytes], None]) -> None:
    """Pass the decompressed body to `take`; the event loop has a turn whenever a few milliseconds of work are done."""
    coding, clock = _coding(request), asyncio.get_running_loop().time
    since = clock()
    inflater = Inflater(coding) if coding in _COMPRESSED else None
    while chunk := await request.content.readany():
        if inflater is None:
            take(chunk)
            continue
        for piece in inflater.feed(chunk):
            take(piece)
            if clock() - since >= TURN_SECONDS:
                await asyncio.sleep(0)
                since = clock()
    if inflater is not None:
        inflater.finish()


def _coding(request: web.Request) -> str:
    return request.headers.get(hdrs.CONTENT_ENCODING, "").strip().lower()


class Parts(NamedTuple):
    """The parts of a body."""

    wire: dict[str, Any]
    binary: memoryview
    """The data after the JSON."""
    numbers: int
    """How many numbers of the JSON are decoded later, into the arrays of tensors."""


def split(body: bytes | bytearray, header_length: str | None) -> Parts:
    """Return the JSON object and the binary data after it.

    Raises:
        BadInput: `header_length` is not a length within the body, or the JSON is invalid or not an object.
    """
    view = memoryview(body)
    length = len(body) if header_length is None else _length(header_length, len(body))
    small = length <= SMALL_BYTES
    wire, numbers = (_json(view[:length]), 0) if small else _large_json(view[:length])
    if not isinstance(wire, dict):
        raise BadInput("the body must be a JSON object with `inputs`", field="body")
    return Parts(wire, view[length:], numbers)


def _length(text: str, maximum: int) -> int:
    length = parse_integer(text, maximum)
    if length is None:
        raise BadInput(
            f"{HEADER_LENGTH} must be a number of bytes from 0 to the body's {maximum}, got {text[:40]!r}",
            field=HEADER_LENGTH,
        )
    return length


def _large_json(text: memoryview) -> tuple[Any, int]:
    """Return the value of a large text in bounded steps; long lists of numbers in `data` become `Numbers`, counted here."""
    structure = structure_of(text, PLAIN)
    structure.check(PLAIN, structure.spans)
    rest, numbers = without(text, structure.spans)
    wire = _json(memoryview(rest))
    inputs = wire.get("inputs") if isinstance(wire, dict) else None
    for tensor in inputs if isinstance(inputs, list) else ():
        if isinstance(tensor, dict) and "data" in tensor:
            tensor["data"] = put_back(tensor["data"], numbers)
    if not numbers:
        return wire, sum(span.values for span in structure.spans)
    structure.check(PLAIN, [])  # lists of numbers outside the data of tensors
    return _json(text), 0


def load_json(text: bytes) -> Any:
    """Return the value of a JSON text, with NaN and Infinity as numbers.

    Raises:
        BadInput: it is not valid JSON.
    """
    return _json(memoryview(text))


def _json(text: memoryview) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return _json_with_nan(bytes(text), error)


def _json_with_nan(text: bytes, error: orjson.JSONDecodeError) -> Any:
    """Parse Triton's dialect, which allows NaN and Infinity as numbers.

    Lone surrogates are as invalid as in plain JSON: no answer could repeat them.
    """
    if b"NaN" in text or b"Infinity" in text:
        with suppress(ValueError):
            return from_json(text)
    raise BrokenJson(f"the body is not valid JSON: {error}", field="body") from error


async def _continue(request: web.Request) -> None:
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # as in aiohttp's own handler: the answer has not begun


async def postpone_continue(_request: web.Request) -> None:
    """Send no 100 yet: a rejection must reach the client before it sends its body (`web.Route`'s hook)."""


def _too_large(size: str, max_bytes: int) -> TooLarge:
    return TooLarge(
        f"a body of {size} bytes exceeds the {max_bytes} bytes that this pod accepts: send fewer rows a request",
        field="Content-Length",
    )
