"""Parsing of an `infer` body against the model: every fault names its field, its value and the remedy."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from penstock_runtime.engine.model import ModelInfo, TensorSpec, group_of
from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.open_inference.input_check import fault_of
from penstock_runtime.protocols.open_inference.outputs import RequestedOutput, requested_outputs
from penstock_runtime.protocols.open_inference.tensors import from_bytes, from_json
from penstock_runtime.request import Group, Tensor

MICROSECONDS = 1e-6
MAX_AXIS: Final = 2**31
"""The largest size of an axis: no body has more elements, and larger products cost time."""
_SHARED_MEMORY = "shared_memory_region"


class ResponseOptions(Struct, frozen=True, gc=False):
    """Options of a call that set the form of its answer; kept once the engine has its tensors."""

    id: str | None
    outputs: tuple[RequestedOutput, ...]


class InferCall(Struct, frozen=True, gc=False):
    """A valid call: inputs in the model's order, with `rows` as the length of their common first axis."""

    inputs: dict[str, Tensor]
    rows: int
    group: Group
    priority: int
    timeout_seconds: float | None
    """`parameters.timeout`, from arrival to the start of its batch; None if unset."""
    options: ResponseOptions
    bytes: int
    """The size of all inputs in bytes."""


def parse(wire: dict[str, Any], binary: memoryview, model: ModelInfo, max_rows: int) -> InferCall:
    """Return the call in the JSON object `wire` and the binary data after it.

    Raises:
        BadInput: a field is invalid.
    """
    parameters = require_object(wire.get("parameters", {}), "parameters")
    name = wire.get("id")
    if name is not None and not isinstance(name, str):
        raise BadInput(f"`id` must be a string, got {shown(name)}", field="id")
    inputs = _inputs(wire, binary, model)
    index_of = {tensor["name"]: index for index, tensor in enumerate(wire["inputs"])}
    rows = _rows(inputs, index_of, max_rows)
    _check_contents(inputs, index_of, model)
    priority, timeout_seconds = priority_and_timeout(parameters)
    return InferCall(
        inputs=inputs,
        rows=rows,
        group=group_of(model, inputs),
        priority=priority,
        timeout_seconds=timeout_seconds,
        options=ResponseOptions(name, requested_outputs(wire, parameters, model)),
        bytes=sum(tensor.nbytes for tensor in inputs.values()),
    )


def priority_and_timeout(parameters: Mapping[str, Any]) -> tuple[int, float | None]:
    """Return `priority` and `timeout` (seconds, None if unset) of a call's parameters.

    Raises:
        BadInput: one of them is not an integer, or is negative.
    """
    priority = _integer(parameters, "priority", "0 (unset) or 1 (highest) and up")
    microseconds = _integer(parameters, "timeout", "microseconds, 0 for none")
    return priority, microseconds * MICROSECONDS or None


def require_object(value: Any, field: str) -> dict[str, Any]:
    """Return `value` if it is a JSON object."""
    if not isinstance(value, dict):
        raise BadInput(f"`{field}` must be an object, got {shown(value)}", field=field)
    return value


def _integer(parameters: Mapping[str, Any], name: str, meaning: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value < 2**63:
        raise BadInput(
            f"`{name}` must be an integer ({meaning}), got {shown(value)}",
            field=f"parameters.{name}",
        )
    return value


def _inputs(wire: dict[str, Any], binary: memoryview, model: ModelInfo) -> dict[str, Tensor]:
    listed = wire.get("inputs")
    if not isinstance(listed, list) or not listed:
        raise BadInput("`inputs` must be a list of at least one tensor", field="inputs")
    specs = {spec.name: spec for spec in model.inputs}
    inputs: dict[str, Tensor] = {}
    at = 0
    for index, entry in enumerate(listed):
        field = f"inputs[{index}]"
        tensor = require_object(entry, field)
        spec = _spec(tensor, specs, inputs, field)
        size = _binary_size(tensor, field)
        inputs[spec.name] = _tensor(tensor, spec, binary[at : at + (size or 0)], size, field)
        at += size or 0
    _check_all_named(inputs, specs)
    if at != len(binary):
        raise BadInput(
            f"{len(binary)} bytes follow the JSON, but the inputs' binary_data_size add up to {at}: send as many",
            field="inputs",
        )
    return {name: inputs[name] for name in specs}


def _spec(
    tensor: dict[str, Any], specs: Mapping[str, TensorSpec], given: Mapping[str, Tensor], field: str
) -> TensorSpec:
    name = tensor.get("name")
    if not isinstance(name, str) or name not in specs:
        known = ", ".join(specs)
        raise BadInput(
            f"the model has no input {shown(name)}: its inputs are {known}", field=f"{field}.name"
        )
    if name in given:
        raise BadInput(f"input {name!r} is given twice: send it once", field=f"{field}.name")
    if tensor.get("datatype") != specs[name].datatype:
        raise BadInput(
            f"input {name!r} has datatype {shown(tensor.get('datatype'))}: send {specs[name].datatype}",
            field=f"{field}.datatype",
        )
    return specs[name]


def _check_all_named(given: Mapping[str, Tensor], specs: Mapping[str, TensorSpec]) -> None:
    missing = [name for name in specs if name not in given]
    if missing:
        raise BadInput(f"input {missing[0]!r} is missing: send every input", field="inputs")


def _binary_size(tensor: dict[str, Any], field: str) -> int | None:
    parameters = require_object(tensor.get("parameters", {}), f"{field}.parameters")
    if _SHARED_MEMORY in parameters:
        raise BadInput(
            "shared memory is not supported: send `data` or binary data",
            field=f"{field}.parameters.{_SHARED_MEMORY}",
        )
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise BadInput(
            f"`binary_data_size` must be a number of bytes from 0, got {shown(size)}",
            field=f"{field}.parameters.binary_data_size",
        )
    return size


def _tensor(
    tensor: dict[str, Any], spec: TensorSpec, binary: memoryview, size: int | None, field: str
) -> Tensor:
    shape = _shape(tensor.get("shape"), spec, f"{field}.shape")
    if size is None:
        if "data" not in tensor:
            raise BadInput(
                f"input {spec.name!r} has neither `data` nor binary data: send one",
                field=f"{field}.data",
            )
        return from_json(tensor["data"], spec.datatype, shape, f"{field}.data")
    where = f"{field}.parameters.binary_data_size"
    if "data" in tensor:
        raise BadInput(
            f"input {spec.name!r} has both `data` and binary data: send one", field=where
        )
    if len(binary) != size:
        raise BadInput(
            f"`binary_data_size` {size} exceeds the {len(binary)} bytes that follow: send as many",
            field=where,
        )
    return from_bytes(binary, spec.datatype, shape, where)


def _shape(shape: Any, spec: TensorSpec, field: str) -> tuple[int, ...]:
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise BadInput(f"`shape` must be a list of integers, got {shown(shape)}", field=field)
    expected = list(spec.shape)
    fits = len(shape) == len(expected) and all(
        dimension in (-1, size) for size, dimension in zip(shape, expected, strict=True)
    )
    if not fits:
        raise BadInput(
            f"input {spec.name!r} has shape {shown(shape)}: send {expected}", field=field
        )
    if min(shape) < 1:
        raise BadInput(
            f"shape {shown(shape)} has no rows or elements: send at least one", field=field
        )
    if max(shape) > MAX_AXIS:
        raise BadInput(
            f"shape {shown(shape)} has an axis above {MAX_AXIS}: send the sizes of `data`",
            field=field,
        )
    if outside := spec.outside(tuple(shape)):
        raise BadInput(f"input {spec.name!r} has shape {shown(shape)}: {outside}", field=field)
    return tuple(shape)


def _rows(inputs: Mapping[str, Tensor], index_of: Mapping[str, int], max_rows: int) -> int:
    first = next(iter(inputs))
    rows = int(inputs[first].shape[0])
    for name, tensor in inputs.items():
        if tensor.shape[0] != rows:
            raise BadInput(
                f"input {name!r} has {tensor.shape[0]} rows, but {first!r} has {rows}: send as many in each",
                field=f"inputs[{index_of[name]}].shape",
            )
    if rows > max_rows:
        raise BadInput(
            f"{rows} rows exceed the {max_rows} that one request may have: split the request",
            field=f"inputs[{index_of[first]}].shape",
        )
    return rows


def _check_contents(
    inputs: dict[str, Tensor], index_of: Mapping[str, int], model: ModelInfo
) -> None:
    fault = fault_of(model, inputs)
    if fault is not None:
        raise BadInput(
            f"input {fault.input!r} {fault.words}",
            field=f"inputs[{index_of[fault.input]}].{fault.place}",
        )
