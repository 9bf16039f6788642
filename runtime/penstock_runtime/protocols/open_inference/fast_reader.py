"""The plain `infer` body, read in few steps: one typed decoder per model, no check that the decoder makes anyway.

What is not plain, and whatever is wrong, is None here and left to `bodies.split` and `infer_request.parse`: they
alone judge and word a fault. So this reader may accept less than they do, never more, and never otherwise
(a test feeds both). A plain body has flat `data` for every input, or is binary throughout.

The JSON of binary bodies, which repeats from body to body, is judged once.
"""

import struct
from collections.abc import Callable
from math import prod
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.engine.model import ModelInfo, TensorSpec, group_of
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.open_inference import bodies, infer_request
from penstock_runtime.protocols.open_inference.infer_request import InferCall, ResponseOptions
from penstock_runtime.protocols.open_inference.input_check import fault_of, has_content_checks
from penstock_runtime.protocols.open_inference.outputs import requested_outputs
from penstock_runtime.request import Group, Tensor

_CODES: Final = {"FP32": "f", "FP64": "d", "INT32": "i", "INT64": "q"}
"""Datatypes read here, as `struct` packs them; it refuses what is out of range."""
_Parameters = dict[Literal["priority", "timeout", "binary_data_output"], Any]
_Output = dict[Literal["name", "parameters"], str | dict[Literal["binary_data"], bool]]
"""Both without what the careful reader ignores, but for its JSON: of that the two decoders may think otherwise."""
_REMEMBERED: Final = 256
"""JSON heads of binary bodies whose meaning is kept."""
_MAX_HEAD_BYTES: Final = 4096
_COPIED_SIZE: Final = 2**16
"""Bytes of data up to which a copy, which begins aligned, costs less than looking whether it would be needed."""


class _Known(Struct, frozen=True):
    """What the JSON of a binary body means."""

    call: InferCall
    """The call of the body that it came with; its inputs lend name, dtype and shape, and hold no data."""
    size: int
    """Of the data, in bytes."""


class _Repeated(Struct, frozen=True):
    """The JSON of the last plain binary body, which the next one most often repeats."""

    length: str
    """As the head announced it."""
    text: bytes
    known: _Known


class _Form(Struct, frozen=True):
    """How an array of one input and shape is made of numbers."""

    size: int
    pack: Callable[..., bytes]
    dtype: np.dtype[np.generic]
    group: Group
    """Of a request whose only input this is."""


class QuickReader:
    """Reads plain bodies for one model."""

    def __init__(self, model: ModelInfo, max_rows: int) -> None:
        self._model = model
        self._has_content_checks = has_content_checks(model)
        self._only = model.inputs[0].name
        """The model's input, where it has one."""
        self._max_rows = max_rows
        self._specs = {spec.name: spec for spec in model.inputs}
        self._decode = _decoder(model)
        self._forms: dict[tuple[str, tuple[int, ...]], _Form] = {}
        self._heads: dict[bytes, _Known] = {}
        self._last: _Repeated | None = None
        """Of a model with one input."""
        self._every_output = ResponseOptions(None, requested_outputs({}, {}, model))

    def read(self, body: bytes, header_length: str | None) -> InferCall:
        """Return the call that `body` spells.

        Raises:
            BadInput: as `infer_request.parse`.
        """
        call = self._read(body, header_length)
        if self._has_content_checks and fault_of(self._model, call.inputs) is not None:
            return self._read_carefully(body, header_length)
        return call

    def _read(self, body: bytes, header_length: str | None) -> InferCall:
        """As `read`, but what the tensors hold may be a fault still."""
        if header_length is not None:
            return self._read_binary(body, header_length)
        call = self._read_json(body)
        return call if call is not None else self._read_carefully(body, None)

    def _with_numbers(self, like: InferCall, data: bytes) -> InferCall:
        """As `_with_data`, of a model with one input: its bytes are all there is, and begin aligned."""
        name = self._only
        one = like.inputs[name]
        return replace(like, inputs={name: np.ndarray(one.shape, one.dtype, data)})

    def _read_carefully(self, body: bytes, header_length: str | None) -> InferCall:
        wire, binary = bodies.split(body, header_length)
        return infer_request.parse(wire, binary, self._model, self._max_rows)

    def _read_json(self, body: bytes) -> InferCall | None:
        if self._decode is None:
            return None
        try:
            wire = self._decode(body)
            first = wire.inputs[0]
            form = self._forms.get((first.name, first.shape)) or self._form(first)
            if len(first.data) != form.size:
                return None
            array = np.frombuffer(form.pack(*first.data), form.dtype).reshape(first.shape)
            if len(self._specs) == 1 == len(wire.inputs):
                inputs, rows, group = {first.name: array}, first.shape[0], form.group
                size = array.nbytes
            else:
                inputs = self._all(wire.inputs, array)
                rows, group = array.shape[0], group_of(self._model, inputs)
                size = sum(one.nbytes for one in inputs.values())
        except _NOT_PLAIN:
            return None
        if wire.parameters or wire.outputs or wire.id is not None:
            return self._with_more(wire, inputs, rows, group, size)
        return InferCall(inputs, rows, group, 0, None, self._every_output, size)

    def _form(self, one: Any) -> "_Form":
        """Return what a tensor of this name and shape is made with, the same for all of them."""
        spec, shape = self._specs[one.name], one.shape
        if not _fits(shape, spec) or shape[0] > self._max_rows:
            raise _NotPlainError
        size, dtype = prod(shape), numpy_dtype(spec.datatype)
        if len(one.data) != size:  # nothing is allocated for a shape alone
            raise _NotPlainError
        pack = struct.Struct(f"<{size}{_CODES[spec.datatype]}").pack
        alone = len(self._specs) == 1
        group = group_of(self._model, {spec.name: np.empty(shape, dtype)}) if alone else ()
        if len(self._forms) >= _REMEMBERED:
            self._forms.clear()
        form = self._forms[one.name, shape] = _Form(size, pack, dtype, group)
        return form

    def _all(self, listed: list[Any], first: Tensor) -> dict[str, Tensor]:
        """Return every input in the model's order; all have the rows of the first."""
        found = {listed[0].name: first}
        for one in listed[1:]:
            form = self._forms.get((one.name, one.shape)) or self._form(one)
            if len(one.data) != form.size or one.shape[0] != first.shape[0]:
                raise _NotPlainError
            found[one.name] = np.frombuffer(form.pack(*one.data), form.dtype).reshape(one.shape)
        if not len(listed) == len(found) == len(self._specs):
            raise _NotPlainError
        return {name: found[name] for name in self._specs}

    def _with_more(
        self, wire: Any, inputs: dict[str, Tensor], rows: int, group: Group, size: int
    ) -> InferCall | None:
        if wire.id is not None and not wire.id.isascii():
            return None  # the careful reader has its own mind on half surrogates
        try:
            priority, timeout_seconds = infer_request.priority_and_timeout(wire.parameters)
            outputs = requested_outputs({"outputs": wire.outputs}, wire.parameters, self._model)
        except BadInput:
            return None
        wanted = ResponseOptions(wire.id, outputs)
        return InferCall(inputs, rows, group, priority, timeout_seconds, wanted, size)

    def _read_binary(self, body: bytes, header_length: str) -> InferCall:
        last = self._last
        if last is not None and header_length == last.length and body.startswith(last.text):
            data = body[len(last.text) :]
            if len(data) == last.known.size:
                return self._with_numbers(last.known.call, data)
        return self._read_any_binary(body, header_length)

    def _read_any_binary(self, body: bytes, header_length: str) -> InferCall:
        text = body[: int(header_length)] if header_length.isdigit() else b""
        known = self._heads.get(text)
        if known is not None and len(body) - len(text) == known.size:
            if len(self._specs) == 1 and known.size <= _COPIED_SIZE:
                self._last = _Repeated(header_length, text, known)
            return _with_data(known.call, body, len(text))
        wire, binary = bodies.split(body, header_length)
        call = infer_request.parse(wire, binary, self._model, self._max_rows)
        if call.wanted.id is not None or len(text) > _MAX_HEAD_BYTES or _has_booleans(self._model):
            return call
        if call.bytes == len(body) - len(text) and _in_order(wire, list(call.inputs)):
            _remember(self._heads, text, _Known(_without_data(call), call.bytes))
        return call


class _NotPlainError(Exception):
    """Leave it to the careful reader."""


_NOT_PLAIN: Final = (
    _NotPlainError,
    msgspec.MsgspecError,
    struct.error,
    ArithmeticError,
    LookupError,
    ValueError,
    RecursionError,
)
"""What the decoder and `struct` raise on a bad body; msgspec lets UnicodeDecodeError and RecursionError out as they are."""


def _remember(known: dict[bytes, _Known], text: bytes, meaning: _Known) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[text] = meaning


def _without_data(call: InferCall) -> InferCall:
    """Return `call` with tensors of its shapes that take no memory: what is remembered of a body must not keep it."""
    return replace(
        call,
        inputs={
            name: np.ndarray(one.shape, one.dtype, bytes(one.itemsize), strides=(0,) * one.ndim)
            for name, one in call.inputs.items()
        },
    )


def _with_data(like: InferCall, body: bytes, at: int) -> InferCall:
    """Return a call as `like`, its tensors over the bytes of `body` from `at` on."""
    inputs: dict[str, Tensor] = {}
    for name, one in like.inputs.items():
        tensor: Tensor = np.ndarray(one.shape, one.dtype, body, at)
        inputs[name] = tensor if at == 0 or tensor.flags.aligned else tensor.copy()
        at += one.nbytes
    return replace(like, inputs=inputs)


def _in_order(wire: dict[str, Any], names: list[str]) -> bool:
    """Return whether the inputs stand in the JSON in the model's own order, as their bytes then do."""
    return [one["name"] for one in wire["inputs"]] == names


def _has_booleans(model: ModelInfo) -> bool:
    return any(spec.datatype == "BOOL" for spec in model.inputs)


def _fits(shape: tuple[int, ...], spec: TensorSpec) -> bool:
    return (
        len(shape) == len(spec.shape)
        and all(size in (-1, got) for size, got in zip(spec.shape, shape, strict=True))
        and min(shape) >= 1
        and (not spec.bounds or spec.outside(shape) is None)
    )


def _decoder(model: ModelInfo) -> Any:
    """Return what decodes a plain body of `model`, or None for a model whose bodies are never plain."""
    if any(spec.datatype not in _CODES for spec in model.inputs):
        return None
    alone = len(model.inputs) == 1
    tensors = [_tensor_type(spec, alone=alone) for spec in model.inputs]
    one = tensors[0]
    for another in tensors[1:]:
        one = one | another
    whole = msgspec.defstruct(
        "PlainBody",
        [
            ("inputs", list[one]),  # type: ignore[valid-type]
            ("id", str | None, None),
            ("parameters", _Parameters, msgspec.field(default_factory=dict)),
            ("outputs", list[_Output], msgspec.field(default_factory=list)),
        ],
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(whole).decode


def _tensor_type(spec: TensorSpec, *, alone: bool) -> Any:
    number = float if spec.datatype.startswith("FP") else int
    fields: list[Any] = [
        ("datatype", Literal[spec.datatype]),
        ("shape", tuple[int, ...]),
        ("data", list[number]),  # type: ignore[valid-type]
    ]
    if alone:
        fields.insert(0, ("name", Literal[spec.name]))
        return msgspec.defstruct("PlainTensor", fields, forbid_unknown_fields=True)
    return msgspec.defstruct(
        f"PlainTensor_{spec.name}",
        fields,
        tag_field="name",
        tag=spec.name,
        forbid_unknown_fields=True,
        namespace={"name": spec.name},
    )
