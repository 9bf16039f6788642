"""Which outputs a call wants, and in which form."""

from typing import Any

from msgspec import Struct

from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import BadInput, shown

_UNSUPPORTED = ("classification", "shared_memory_region")


class RequestedOutput(Struct, frozen=True):
    """One output; `binary` puts it behind the JSON instead of inside."""

    name: str
    binary: bool


def requested_outputs(
    wire: dict[str, Any], parameters: dict[str, Any], model: ModelInfo
) -> tuple[RequestedOutput, ...]:
    """Return what `outputs` selects, or every output of the model where it selects none.

    Raises:
        BadInput: an output that the model lacks, given twice, or wanted in an unsupported form.
    """
    binary = _flag(parameters, "binary_data_output", "parameters", default=False)
    listed = wire.get("outputs")
    if listed is not None and not isinstance(listed, list):
        raise BadInput(f"`outputs` must be a list, got {shown(listed)}", field="outputs")
    if not listed:
        return tuple(RequestedOutput(spec.name, binary) for spec in model.outputs)
    known = [spec.name for spec in model.outputs]
    found: dict[str, RequestedOutput] = {}
    for index, one in enumerate(listed):
        wanted = _wanted(one, known, f"outputs[{index}]", default=binary)
        if wanted.name in found:
            raise BadInput(
                f"output {wanted.name!r} is asked for twice: ask once",
                field=f"outputs[{index}].name",
            )
        found[wanted.name] = wanted
    return tuple(found.values())


def _wanted(one: Any, known: list[str], field: str, *, default: bool) -> RequestedOutput:
    if not isinstance(one, dict):
        raise BadInput(f"`{field}` must be an object, got {shown(one)}", field=field)
    name = one.get("name")
    if name not in known:
        raise BadInput(
            f"the model has no output {shown(name)}: it gives {', '.join(known)}",
            field=f"{field}.name",
        )
    parameters = one.get("parameters", {})
    if not isinstance(parameters, dict):
        raise BadInput(
            f"`parameters` must be an object, got {shown(parameters)}", field=f"{field}.parameters"
        )
    for unsupported in _UNSUPPORTED:
        if unsupported in parameters:
            raise BadInput(
                f"`{unsupported}` is not supported: leave it out",
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
