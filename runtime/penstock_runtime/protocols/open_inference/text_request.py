"""Parsing and tokenization of `infer` calls with texts: one input `text` of datatype BYTES, for a text encoder.

As in Triton, an element is a string in JSON, or in binary data its length (4 bytes, little-endian) followed by its UTF-8
bytes. `parameters.truncate: true` cuts a text that is too long for the model; without it, such a text is rejected.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Final

from msgspec import Struct

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.engine.model import ModelInfo, group_of
from penstock_runtime.errors import BadInput, NotServing, shown
from penstock_runtime.protocols.open_inference import bodies, infer_request
from penstock_runtime.protocols.open_inference.bodies import Parts
from penstock_runtime.protocols.open_inference.infer_request import InferCall, ResponseOptions
from penstock_runtime.protocols.open_inference.metadata import TEXT
from penstock_runtime.protocols.open_inference.outputs import requested_outputs
from penstock_runtime.serving.admission.memory_budget import Hold
from penstock_runtime.serving.tokenizer_pool import (
    TokenizerPool,
    held_rows_of,
    nearest,
    rows_bytes,
    texts_bytes,
)

_FIELD: Final = "inputs[0]"


def may_be_text(body: bytes) -> bool:
    """Return whether the inputs of an unparsed body may be texts: it contains their name, or an escape that may spell it."""
    return b'"text"' in body or b"\\" in body


def is_text(wire: Mapping[str, Any]) -> bool:
    """Return whether the inputs of a parsed body are texts."""
    listed = wire.get("inputs")
    return (
        isinstance(listed, list)
        and len(listed) == 1
        and isinstance(listed[0], dict)
        and listed[0].get("name") == TEXT
    )


class TextCall(Struct, frozen=True):
    """A valid call before tokenization; only the texts of its body are kept."""

    texts: list[str]
    cut: bool
    priority: int
    timeout_seconds: float | None
    options: ResponseOptions
    model: ModelInfo
    tokenizer_pool: TokenizerPool

    async def tokenized(self, hold: Hold, header_seconds: float | None) -> InferCall:
        """Return the call with rows of tokens; `hold` counts the memory of the texts, then of the rows.

        Raises:
            BadInput: a text is invalid for the model.
            MemoryFull: the memory for requests is full, as `hold` finds.
            TooLate: the nearer of the call's and the header's deadlines passed meanwhile.
        """
        hold(texts_bytes(self.texts))
        within = nearest(self.timeout_seconds, header_seconds)
        ids = await self.tokenizer_pool.encode(
            self.texts, f"{_FIELD}.data", hold, cut=self.cut, within_seconds=within
        )
        inputs = await held_rows_of(ids, f"{_FIELD}.data", hold)
        return InferCall(
            inputs=inputs,
            rows=len(ids),
            group=group_of(self.model, inputs),
            priority=self.priority,
            timeout_seconds=self.timeout_seconds,
            options=self.options,
            bytes=rows_bytes(ids),
        )


def read_call(
    body: bytes | bytearray,
    header_length: str | None,
    model: ModelInfo | None,
    tokenizer_pool: TokenizerPool | None,
) -> InferCall | TextCall:
    """Return the call in a body, with texts or tensors.

    Raises:
        BadInput: a field is invalid.
        NotServing: the model is being loaded.
    """
    if model is None:
        raise NotServing("Loading", "the model is loading: retry shortly")
    return call_of(bodies.split(body, header_length), model, tokenizer_pool)


def call_of(
    parts: Parts, model: ModelInfo, tokenizer_pool: TokenizerPool | None
) -> InferCall | TextCall:
    """Return the call in the parts of a body; raises as `read_call`."""
    wire, binary, _ = parts
    if tokenizer_pool is not None and is_text(wire):
        return parse(wire, binary, model, tokenizer_pool, MAX_BATCH_SIZE)
    return infer_request.parse(wire, binary, model, MAX_BATCH_SIZE)


def parse(
    wire: dict[str, Any],
    binary: memoryview,
    model: ModelInfo,
    tokenizer_pool: TokenizerPool,
    max_rows: int,
) -> TextCall:
    """Return the call in the JSON object `wire` and the binary data after it.

    Raises:
        BadInput: a field is invalid.
    """
    parameters = infer_request.require_object(wire.get("parameters", {}), "parameters")
    name = wire.get("id")
    if name is not None and not isinstance(name, str):
        raise BadInput(f"`id` must be a string, got {shown(name)}", field="id")
    cut = parameters.get("truncate", False)
    if not isinstance(cut, bool):
        raise BadInput(
            f"`truncate` must be true or false, got {shown(cut)}", field="parameters.truncate"
        )
    priority, timeout_seconds = infer_request.priority_and_timeout(parameters)
    return TextCall(
        texts=_texts(wire["inputs"][0], binary, max_rows),
        cut=cut,
        priority=priority,
        timeout_seconds=timeout_seconds,
        options=ResponseOptions(name, requested_outputs(wire, parameters, model)),
        model=model,
        tokenizer_pool=tokenizer_pool,
    )


def _texts(tensor: dict[str, Any], binary: memoryview, max_rows: int) -> list[str]:
    if tensor.get("datatype") != "BYTES":
        raise BadInput(
            f"input {TEXT!r} has datatype {shown(tensor.get('datatype'))}: send BYTES",
            field=f"{_FIELD}.datatype",
        )
    parameters = infer_request.require_object(tensor.get("parameters", {}), f"{_FIELD}.parameters")
    if "data" in tensor:
        texts = _from_json(tensor, parameters, binary)
    else:
        texts = _from_binary(parameters, binary, max_rows)
    shape = tensor.get("shape")
    integers = isinstance(shape, list) and all(type(size) is int for size in shape)
    if not integers or shape not in ([len(texts)], [len(texts), 1]):
        raise BadInput(
            f"input {TEXT!r} has shape {shown(shape)} and {len(texts)} texts: send [{len(texts)}]",
            field=f"{_FIELD}.shape",
        )
    if not 1 <= prod(shape) <= max_rows:
        raise BadInput(
            f"{len(texts)} texts: send 1 to {max_rows} in one request", field=f"{_FIELD}.shape"
        )
    return texts


def _from_json(
    tensor: dict[str, Any], parameters: Mapping[str, Any], binary: memoryview
) -> list[str]:
    if len(binary) or parameters.get("binary_data_size") is not None:
        raise BadInput(
            f"input {TEXT!r} has both `data` and binary data: send one",
            field=f"{_FIELD}.parameters.binary_data_size",
        )
    data = tensor["data"]
    if not isinstance(data, list):
        raise BadInput(f"`data` must be a list, got {shown(data)}", field=f"{_FIELD}.data")
    flat = [row[0] if isinstance(row, list) and len(row) == 1 else row for row in data]
    wrong = next((at for at, text in enumerate(flat) if not isinstance(text, str)), None)
    if wrong is not None:
        raise BadInput(
            f"element {wrong} of `data` is {shown(flat[wrong])}: send strings",
            field=f"{_FIELD}.data",
        )
    return flat


def _from_binary(parameters: Mapping[str, Any], binary: memoryview, max_rows: int) -> list[str]:
    field = f"{_FIELD}.parameters.binary_data_size"
    size = parameters.get("binary_data_size")
    if type(size) is not int or size != len(binary):
        raise BadInput(
            f"`binary_data_size` is {shown(parameters.get('binary_data_size'), 40)}, but {len(binary)} bytes"
            " follow the JSON: send as many",
            field=field,
        )
    texts: list[str] = []
    at = 0
    while at < len(binary):
        if len(texts) == max_rows:
            raise BadInput(
                f"more than {max_rows} texts: send 1 to {max_rows} in one request", field=field
            )
        size = int.from_bytes(binary[at : at + 4], "little")
        text = bytes(binary[at + 4 : at + 4 + size])
        if len(binary) - at < 4 + size:
            raise BadInput(
                f"text {len(texts)} ends before its length of 4 bytes and its {size} bytes: send as many as its length says",
                field=field,
            )
        try:
            texts.append(text.decode())
        except UnicodeDecodeError as error:
            raise BadInput(f"text {len(texts)} is not valid UTF-8: {error}", field=field) from error
        at += 4 + size
    return texts
