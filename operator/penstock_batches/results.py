"""The lines of output and error files, in OpenAI's format."""

from typing import Final

import msgspec

from penstock_batches.records import Fault

EXPIRED: Final = Fault(
    "batch_expired",
    "This request could not be executed before the completion window expired.",
)
CANCELLED: Final = Fault(
    "batch_cancelled", "This request was not executed because the batch was cancelled."
)


_JSON: Final = msgspec.json.Decoder(msgspec.Raw)


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


def request_id(batch_id: str, number: int) -> str:
    """Return the id of line `number` of a batch: the same whenever it is sent."""
    return f"batch_req_{batch_id.removeprefix('batch_')}_{number}"


def response_line(batch_id: str, number: int, custom_id: str, reply: PoolReply) -> bytes:
    """Return the line of an answered request; a body that is not JSON becomes a JSON text."""
    try:
        raw = _JSON.decode(
            _one_line(reply.body).decode()
        )  # `Raw` itself accepts bytes that are not UTF-8
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raw = msgspec.Raw(msgspec.json.encode(reply.body.decode("utf-8", "replace")))
    response = _Response(reply.status, reply.request_id, raw)
    return _encoded(_Result(request_id(batch_id, number), custom_id, response, None))


def fault_line(batch_id: str, number: int, custom_id: str | None, fault: Fault) -> bytes:
    """Return the line of a request that was not executed."""
    return _encoded(_Result(request_id(batch_id, number), custom_id, None, fault))


def _one_line(body: bytes) -> bytes:
    """Return JSON without line breaks: between tokens they are white space, and inside texts they are escaped."""
    return body.strip().replace(b"\n", b" ").replace(b"\r", b" ")


def _encoded(result: _Result) -> bytes:
    return msgspec.json.encode(result) + b"\n"
