"""The lines of output and error files, in OpenAI's format."""

import codecs
from typing import Final, NamedTuple

import msgspec

from penstock_batches.records import Fault

EXPIRED: Final = Fault(
    "batch_expired",
    "This request could not be executed before the completion window expired.",
)
CANCELLED: Final = Fault(
    "batch_cancelled", "This request was not executed because the batch was cancelled."
)


PIECE_BYTES: Final = 2**20
"""Part of a body in one call that holds the interpreter."""
HEAD_BYTES: Final = 2**16
"""Beginning of the line of an answered request that has all before its body: a pool's headers are shorter."""
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)
_BODY: Final = b',"body":'
_NULL: Final = msgspec.Raw(b"null")
_TAIL: Final = b'},"error":null}\n'
"""End of the line of an answered request."""


class PoolReply(msgspec.Struct, frozen=True):
    """A pool's response to a line."""

    status: int
    request_id: str
    body: bytes
    retry_after_seconds: float | None = None


class _Response(msgspec.Struct):
    status_code: int
    request_id: str
    body: msgspec.Raw


class _Result(msgspec.Struct):
    id: str
    custom_id: str | None
    response: _Response | None
    error: Fault | None


_RESULT: Final = msgspec.json.Decoder(_Result)


class PlacedBody(NamedTuple):
    """Where the body of an answer is in its line: `length` bytes at `offset`."""

    status: int
    offset: int
    length: int


def request_id(batch_id: str, number: int) -> str:
    """Return the id of line `number` of a batch: the same whenever it is sent."""
    return f"batch_req_{batch_id.removeprefix('batch_')}_{number}"


def response_line(batch_id: str, number: int, custom_id: str, reply: PoolReply) -> bytes:
    """Return the line of an answered request; a body that is not JSON becomes a JSON text."""
    body = _one_line(reply.body)
    if not _is_json(body):
        body = msgspec.json.encode(reply.body.decode("utf-8", "replace"))
    response = _Response(reply.status, reply.request_id, _NULL)
    line = _encoded(_Result(request_id(batch_id, number), custom_id, response, None))
    return b"".join((line.removesuffix(bytes(_NULL) + _TAIL), body, _TAIL))


def placed_body(head: bytes, size: int) -> PlacedBody | Fault | None:
    """Return where the body is in a line of `size` bytes that begins with `head`, or the fault that the line has instead."""
    start = head.find(_BODY)  # in texts the quotes are escaped
    if start < 0:
        return _RESULT.decode(head).error
    result = _RESULT.decode(head[:start] + _BODY + bytes(_NULL) + _TAIL)
    if result.response is None:
        return result.error
    offset = start + len(_BODY)
    return PlacedBody(result.response.status_code, offset, size - offset - len(_TAIL))


def fault_line(batch_id: str, number: int, custom_id: str | None, fault: Fault) -> bytes:
    """Return the line of a request that was not executed."""
    return _encoded(_Result(request_id(batch_id, number), custom_id, None, fault))


def _is_json(body: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), PIECE_BYTES):
            decoder.decode(body[start : start + PIECE_BYTES])
        decoder.decode(b"", final=True)
        _JSON.decode(body)  # `Raw` itself accepts bytes that are not UTF-8
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _one_line(body: bytes) -> bytes:
    """Return JSON without line breaks: between tokens they are white space, and inside texts they are escaped."""
    return body.strip().replace(b"\n", b" ").replace(b"\r", b" ")


def _encoded(result: _Result) -> bytes:
    return msgspec.json.encode(result) + b"\n"
