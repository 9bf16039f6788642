"""Fast reader of plain `infer` bodies: one typed decoder per model, whose checks are not repeated.

A plain body has flat `data` for every input, or is binary throughout. Any other body, and any fault, goes to the careful
reader (`bodies.split` and `infer_request.parse`), which alone reports faults. This reader may therefore accept fewer bodies
than the careful one, never more, and never with another result (a test feeds both).

The JSON of binary bodies, which repeats from body to body, is parsed once.
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
"""The datatypes that are read here, by their `struct` codes; `struct` rejects values out of range."""
_Parameters = dict[Literal["priority", "timeout", "binary_data_output"], Any]
_Output = dict[Literal["name", "parameters"], str | dict[Literal["binary_data"], bool]]
"""Both without fields that the careful reader ignores: the two decoders may disagree on the JSON of their values."""
_MAX_CACHED: Final = 256
"""The largest number of cached JSON heads of binary bodies, and of cached forms."""
_MAX_HEAD_BYTES: Final = 4096
_COPIED_SIZE: Final = 2**16
"""Size up to which an aligned copy costs less than checking the alignment, in bytes."""


class _ParsedHead(Struct, frozen=True):
    """The parsed JSON of a binary body."""

    call: InferCall
    """The call of the first body with this JSON; its inputs have names, dtypes and shapes, but no data."""
    size: int
    """The size of the data in bytes."""


class _LastHead(Struct, frozen=True):
    """The JSON of the last plain binary body, which the next one usually repeats."""

    length: str
    """Value of the length header."""
    text: bytes
    parsed: _ParsedHead


class _Form(Struct, frozen=True):
    """The conversion of numbers to an array, for one input and shape."""

    size: int
    pack: Callable[..., bytes]
    dtype: np.dtype[np.generic]
    group: Group
    """The group of a request that has no other input."""


class QuickReader:
    """Reads plain bodies for one model."""

    def __init__(self, model: ModelInfo, max_rows: int) -> None:
        self._model = model
        self._has_content_checks = has_content_checks(model)
        self._only = model.inputs[0].name
        """The first input; the only one where the model has one."""
        self._max_rows = max_rows
        self._specs = {spec.name: spec for spec in model.inputs}
        self._decode = _decoder(model)
        self._forms: dict[tuple[str, tuple[int, ...]], _Form] = {}
        self._heads: dict[bytes, _ParsedHead] = {}
        self._last: _LastHead | None = None
        """The last head, for a model with one input."""
        self._every_output = ResponseOptions(None, requested_outputs({}, {}, model))

    def read(self, body: bytes, header_length: str | None) -> InferCall:
        """Return the call in `body`.

        Raises:
            BadInput: the careful reader found a fault.
        """
        call = self._read(body, header_length)
        if self._has_content_checks and fault_of(self._model, call.inputs) is not None:
            return self._read_carefully(body, header_length)
        return call

    def _read(self, body: bytes, header_length: str | None) -> InferCall:
        """Return the call in `body`; the contents of its tensors are not checked yet."""
        if header_length is not None:
            return self._read_binary(body, header_length)
        call = self._read_json(body)
        return call if call is not None else self._read_carefully(body, None)

    def _with_numbers(self, like: InferCall, data: bytes) -> InferCall:
        """Return a call like `like` of a model with one input, over `data`, which is aligned."""
        name = self._only
        tensor = like.inputs[name]
        return replace(like, inputs={name: np.ndarray(tensor.shape, tensor.dtype, data)})

    def _read_carefully(self, body: bytes, header_length: str | None) -> InferCall:
        wire, binary, _ = bodies.split(body, header_length)
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
                size = sum(tensor.nbytes for tensor in inputs.values())
        except _NOT_PLAIN:
            return None
        if wire.parameters or wire.outputs or wire.id is not None:
            return self._with_more(wire, inputs, rows, group, size)
        return InferCall(inputs, rows, group, 0, None, self._every_output, size)

    def _form(self, tensor: Any) -> "_Form":
        """Return the form of tensors of this name and shape, and cache it."""
        spec, shape = self._specs[tensor.name], tensor.shape
        if not _fits(shape, spec) or shape[0] > self._max_rows:
            raise _NotPlainError
        size, dtype = prod(shape), numpy_dtype(spec.datatype)
        if len(tensor.data) != size:  # a shape without data must not allocate memory
            raise _NotPlainError
        pack = struct.Struct(f"<{size}{_CODES[spec.datatype]}").pack
        alone = len(self._specs) == 1
        group = group_of(self._model, {spec.name: np.empty(shape, dtype)}) if alone else ()
        if len(self._forms) >= _MAX_CACHED:
            self._forms.clear()
        form = self._forms[tensor.name, shape] = _Form(size, pack, dtype, group)
        return form

    def _all(self, listed: list[Any], first: Tensor) -> dict[str, Tensor]:
        """Return every input in the model's order; all have the rows of the first."""
        arrays = {listed[0].name: first}
        for tensor in listed[1:]:
            form = self._forms.get((tensor.name, tensor.shape)) or self._form(tensor)
            if len(tensor.data) != form.size or tensor.shape[0] != first.shape[0]:
                raise _NotPlainError
            array = np.frombuffer(form.pack(*tensor.data), form.dtype)
            arrays[tensor.name] = array.reshape(tensor.shape)
        if not len(listed) == len(arrays) == len(self._specs):
            raise _NotPlainError
        return {name: arrays[name] for name in self._specs}

    def _with_more(
        self, wire: Any, inputs: dict[str, Tensor], rows: int, group: Group, size: int
    ) -> InferCall | None:
        if wire.id is not None and not wire.id.isascii():
            return None  # the two decoders differ on lone surrogates
        try:
            priority, timeout_seconds = infer_request.priority_and_timeout(wire.parameters)
            outputs = requested_outputs({"outputs": wire.outputs}, wire.parameters, self._model)
        except BadInput:
            return None
        options = ResponseOptions(wire.id, outputs)
        return InferCall(inputs, rows, group, priority, timeout_seconds, options, size)

    def _read_binary(self, body: bytes, header_length: str) -> InferCall:
        last = self._last
        if last is not None and header_length == last.length and body.startswith(last.text):
            data = body[len(last.text) :]
            if len(data) == last.parsed.size:
                return self._with_numbers(last.parsed.call, data)
        return self._read_any_binary(body, header_length)

    def _read_any_binary(self, body: bytes, header_length: str) -> InferCall:
        text = body[: int(header_length)] if header_length.isdigit() else b""
        parsed = self._heads.get(text)
        if parsed is not None and len(body) - len(text) == parsed.size:
            if len(self._specs) == 1 and parsed.size <= _COPIED_SIZE:
                self._last = _LastHead(header_length, text, parsed)
            return _with_data(parsed.call, body, len(text))
        wire, binary, _ = bodies.split(body, header_length)
        call = infer_request.parse(wire, binary, self._model, self._max_rows)
        if call.options.id is not None or len(text) > _MAX_HEAD_BYTES or _has_booleans(self._model):
            return call
        if call.bytes == len(body) - len(text) and _in_order(wire, list(call.inputs)):
            _cache(self._heads, text, _ParsedHead(_without_data(call), call.bytes))
        return call


class _NotPlainError(Exception):
    """The body needs the careful reader."""


_NOT_PLAIN: Final = (
    _NotPlainError,
    msgspec.MsgspecError,
    struct.error,
    ArithmeticError,
    LookupError,
    ValueError,
    RecursionError,
)
"""The errors of the decoder and of `struct` on a bad body; msgspec does not wrap UnicodeDecodeError and RecursionError."""


def _cache(heads: dict[bytes, _ParsedHead], text: bytes, parsed: _ParsedHead) -> None:
    if len(heads) >= _MAX_CACHED:
        heads.clear()
    heads[text] = parsed


def _without_data(call: InferCall) -> InferCall:
    """Return `call` with tensors of its shapes that take no memory, so that the cache does not keep the body."""
    return replace(
        call,
        inputs={
            name: np.ndarray(old.shape, old.dtype, bytes(old.itemsize), strides=(0,) * old.ndim)
            for name, old in call.inputs.items()
        },
    )


def _with_data(like: InferCall, body: bytes, at: int) -> InferCall:
    """Return a call like `like`, with tensors over the bytes of `body` from `at` on."""
    inputs: dict[str, Tensor] = {}
    for name, old in like.inputs.items():
        tensor: Tensor = np.ndarray(old.shape, old.dtype, body, at)
        inputs[name] = tensor if at == 0 or tensor.flags.aligned else tensor.copy()
        at += old.nbytes
    return replace(like, inputs=inputs)


def _in_order(wire: dict[str, Any], names: list[str]) -> bool:
    """Return whether the JSON, and so the binary data, has the inputs in the model's order."""
    return [tensor["name"] for tensor in wire["inputs"]] == names


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
    """Return the decoder of plain JSON bodies of `model`, or None for a model with an unsupported datatype."""
    if any(spec.datatype not in _CODES for spec in model.inputs):
        return None
    alone = len(model.inputs) == 1
    types = [_tensor_type(spec, alone=alone) for spec in model.inputs]
    tensor = types[0]
    for another in types[1:]:
        tensor = tensor | another
    whole = msgspec.defstruct(
        "PlainBody",
        [
            ("inputs", list[tensor]),  # type: ignore[valid-type]
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
