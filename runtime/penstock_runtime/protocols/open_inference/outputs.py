"""The outputs that a call requests, and their form."""

from typing import Any

from msgspec import Struct

from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import BadInput, shown

_UNSUPPORTED = ("classification", "shared_memory_region")


class RequestedOutput(Struct, frozen=True):
    """One output; with `binary` its data follow the JSON instead of being part of it."""

    name: str
    binary: bool


def requested_outputs(
    wire: dict[str, Any], parameters: dict[str, Any], model: ModelInfo
) -> tuple[RequestedOutput, ...]:
    """Return the outputs that `outputs` selects, or all of the model's where it selects none.

    Raises:
        BadInput: an output is unknown, repeated, or requested in an unsupported form.
    """
    binary = _flag(parameters, "binary_data_output", "parameters", default=False)
    listed = wire.get("outputs")
    if listed is not None and not isinstance(listed, list):
        raise BadInput(f"`outputs` must be a list, got {shown(listed)}", field="outputs")
    if not listed:
        return tuple(RequestedOutput(spec.name, binary) for spec in model.outputs)
    known = [spec.name for spec in model.outputs]
    requested: dict[str, RequestedOutput] = {}
    for index, entry in enumerate(listed):
        output = _output(entry, known, f"outputs[{index}]", default=binary)
        if output.name in requested:
            raise BadInput(
                f"output {output.name!r} is requested twice: request it once",
                field=f"outputs[{index}].name",
            )
        requested[output.name] = output
    return tuple(requested.values())


def _output(entry: Any, known: list[str], field: str, *, default: bool) -> RequestedOutput:
    if not isinstance(entry, dict):
        raise BadInput(f"`{field}` must be an object, got {shown(entry)}", field=field)
    name = entry.get("name")
    if name not in known:
        raise BadInput(
            f"the model has no output {shown(name)}: its outputs are {', '.join(known)}",
            field=f"{field}.name",
        )
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise BadInput(
            f"`parameters` must be an object, got {shown(parameters)}", field=f"{field}.parameters"
        )
    for unsupported in _UNSUPPORTED:
        if unsupported in parameters:
            raise BadInput(
                f"`{unsupported}` is not supported: remove it",
                field=f"{field}.parameters.{unsupported}",
            )
    return RequestedOutput(
        name, _flag(parameters, "binary_data", f"{field}.parameters", default=default)
    )


def _flag(parameters: dict[str, Any], name: str, field: str, *, default: bool) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise BadInput(
            f"`{name}` must be true or false, got {shown(value)}", field=f"{field}.{name}"
        )
    return value
