"""A line of an input file: what a valid one holds, and what is wrong with another, in OpenAI's words."""

import re
from typing import Final

import msgspec

from penstock_batches.records import Fault

ENDPOINTS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
INFER: Final = re.compile(r"/v2/models/([^/]{1,128})/infer")
"""Endpoint of an asynchronous infer request, which names its model."""
MAX_LINES: Final = 50_000
MAX_LINE_BYTES: Final = 4 * 2**20
"""A longer line is a fault of its own: a parser holds the interpreter for a few milliseconds at most."""
DUPLICATE: Final = "duplicate_custom_id"
MAX_CUSTOM_ID: Final = 512
"""Characters."""
MAX_TEXT_BYTES: Final = 12 * MAX_CUSTOM_ID + 2
"""A text in JSON that is decoded: the longest `custom_id`, with two escapes for each character."""


class BatchRequest(msgspec.Struct, frozen=True):
    """A valid line."""

    custom_id: str
    model: str
    body: dict[str, msgspec.Raw]


class BadLine(Exception):
    """A line that cannot be served, with its fault and the `custom_id`, if it has one."""

    def __init__(self, fault: Fault, custom_id: str | None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.custom_id = custom_id


class _Fields(msgspec.Struct):
    custom_id: msgspec.Raw = msgspec.Raw(b"null")
    method: msgspec.Raw = msgspec.Raw(b"null")
    url: msgspec.Raw = msgspec.Raw(b"null")
    body: msgspec.Raw = msgspec.Raw(b"null")


_FIELDS: Final = msgspec.json.Decoder(_Fields)
_BODY: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


def read_request(content: bytes, number: int, endpoint: str) -> BatchRequest:
    """Return the request of line `number` of a batch for `endpoint`.

    Raises:
        BadLine: the line is not a request that `endpoint` serves.
    """
    if len(content) > MAX_LINE_BYTES:
        raise too_long(number, len(content))
    try:
        fields = _FIELDS.decode(content.decode())  # `Raw` itself accepts bytes that are not UTF-8
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"This line is not parseable as valid JSON: {error}."
        raise BadLine(Fault("invalid_json_line", message, number), None) from error
    custom_id = _custom_id(fields, number)
    _one_of(fields.method, "method", ("POST",), number, custom_id)
    infer = INFER.fullmatch(endpoint)
    url = _one_of(fields.url, "url", (endpoint,) if infer else ENDPOINTS, number, custom_id)
    if url != endpoint:
        message = f"The URL {url!r} does not match the endpoint {endpoint!r} of the batch."
        raise BadLine(Fault("url_mismatch", message, number, "url"), custom_id)
    body = _body(fields.body, number, custom_id)
    model = infer[1] if infer else _model(body, number, custom_id)
    return BatchRequest(custom_id, model, body)


def infer_line(endpoint: str, body: bytes) -> bytes:
    """Return the line of an infer request, from a body that is a JSON object."""
    line = {"custom_id": "infer", "method": "POST", "url": endpoint, "body": msgspec.Raw(body)}
    return msgspec.json.encode(line).replace(b"\n", b" ").replace(b"\r", b" ")


def too_long(number: int, size: int) -> BadLine:
    """Return the fault of a line with too many bytes."""
    message = f"This line has {size} bytes; at most {MAX_LINE_BYTES} are served: split the request."
    return BadLine(Fault("line_too_long", message, number), None)


def duplicate(number: int, custom_id: str) -> BadLine:
    """Return the fault of a line whose `custom_id` an earlier line has."""
    message = (
        f"The custom_id {custom_id[:80]!r} for this request is a duplicate of another request."
        " The custom_id parameter must be unique for each request in a batch."
    )
    return BadLine(Fault(DUPLICATE, message, number, "custom_id"), custom_id)


def other_model(number: int, request: BatchRequest, model: str) -> BadLine:
    """Return the fault of a line with another model than the batch."""
    message = (
        f"The model {request.model[:80]!r} does not match the model {model[:80]!r} of the first request:"
        " all requests of a batch have the same model."
    )
    return BadLine(Fault("model_mismatch", message, number, "body.model"), request.custom_id)


def unknown_model(number: int, request: BatchRequest, known: tuple[str, ...]) -> BadLine:
    """Return the fault of a line with a model that no pool of the namespace serves."""
    message = (
        f"The model {request.model[:80]!r} does not exist. Models that pools serve:"
        f" {', '.join(known[:20]) or 'none'}."
    )
    return BadLine(Fault("model_not_found", message, number, "body.model"), request.custom_id)


def _custom_id(fields: _Fields, number: int) -> str:
    value = _text(fields.custom_id)
    if value is None:
        raise _missing("custom_id", number, None)
    if not 0 < len(value) <= MAX_CUSTOM_ID:
        message = f"custom_id must be a text of 1 to {MAX_CUSTOM_ID} characters, got {_shown(fields.custom_id)}."
        raise BadLine(Fault("invalid_value", message, number, "custom_id"), None)
    return value


def _one_of(
    raw: msgspec.Raw, name: str, allowed: tuple[str, ...], number: int, custom_id: str
) -> str:
    value = _text(raw)
    if value is None:
        raise _missing(name, number, custom_id)
    if value not in allowed:
        message = f"{name} must be one of {', '.join(allowed)}, got {_shown(raw)}."
        raise BadLine(Fault(f"invalid_{name}", message, number, name), custom_id)
    return value


def _body(raw: msgspec.Raw, number: int, custom_id: str) -> dict[str, msgspec.Raw]:
    if bytes(raw).strip() == b"null":
        raise _missing("body", number, custom_id)
    try:
        body = _BODY.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        message = f"body must be a JSON object, got {_shown(raw)}."
        raise BadLine(Fault("invalid_value", message, number, "body"), custom_id) from error
    if bytes(body.get("stream", msgspec.Raw(b"false"))) not in (b"false", b"null"):
        message = "A batch has no streams: remove stream from the body."
        raise BadLine(Fault("invalid_value", message, number, "body.stream"), custom_id)
    return body


def _model(body: dict[str, msgspec.Raw], number: int, custom_id: str) -> str:
    raw = body.get("model", msgspec.Raw(b"null"))
    model = _text(raw)
    if model is None:
        raise _missing("body.model", number, custom_id)
    if not model:
        message = (
            f"body.model must be a text of 1 to {MAX_TEXT_BYTES - 2} bytes, got {_shown(raw)}."
        )
        raise BadLine(Fault("invalid_value", message, number, "body.model"), custom_id)
    return model


def _text(raw: msgspec.Raw) -> str | None:
    """Return a text, None for null, and an empty text for anything else, which is not decoded: a long array holds the interpreter for seconds."""
    content = bytes(memoryview(raw)[: MAX_TEXT_BYTES + 1])
    if content == b"null":
        return None
    if not content.startswith(b'"') or len(content) > MAX_TEXT_BYTES:
        return ""
    return _TEXT.decode(content)


def _missing(name: str, number: int, custom_id: str | None) -> BadLine:
    message = f"Missing required parameter: {name}."
    return BadLine(Fault("missing_required_parameter", message, number, name), custom_id)


def _shown(raw: msgspec.Raw) -> str:
    return bytes(memoryview(raw)[:80]).decode("utf-8", "replace")
