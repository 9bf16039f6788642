"""The tools that an answer may or must call, and the grammar that enforces a call."""

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock_runtime.engine.continuous.grammar.spec import GrammarSpec
from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.openai.response_format import ANY_OBJECT, schema_grammar
from penstock_runtime.protocols.openai.wire.chat import ChatBody, Function, NamedTool, Tool
from penstock_runtime.text.tool_calls import BARE, MISTRAL, ToolCallFormat, format_of

_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Members of a schema that contain schemas by arbitrary names."""
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Members of a schema that contain values."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a request, and the form of calls in its answer."""

    call_format: ToolCallFormat | None = None
    """The model's form of tool calls; None if the answer has no calls to parse."""
    named: str | None = None
    """The function whose arguments are the whole answer."""
    grammar: GrammarSpec | None = None
    single: bool = False
    """Whether calls after the first are dropped, where no grammar prevents them."""
    short_ids: bool = False
    """Whether ids have nine letters and digits: Mistral's templates accept no others."""
    shown: tuple[dict[str, Any], ...] = ()
    """The tools for the model's template."""

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that mark calls, which detokenization must keep."""
        return self.call_format.markers if self.call_format is not None else ()

    def new_id(self) -> str:
        """Return the id of a call."""
        return secrets.token_hex(5)[:9] if self.short_ids else f"call_{secrets.token_hex(12)}"


def toolbox(body: ChatBody, template: str) -> Toolbox:
    """Return the toolbox of `tools` and `tool_choice`, for a model with this chat template.

    Raises:
        BadInput: the choice names a tool that is not in the list.
    """
    tools = body.tools or []
    choice = body.tool_choice
    if choice == "none":
        return Toolbox()
    if not tools:
        if choice in (None, "auto"):
            return Toolbox()
        raise BadInput("`tool_choice` needs `tools`: add `tools`", field="tool_choice")
    call_format = format_of(template)
    return replace(
        _chosen(body, tools, call_format),
        short_ids=call_format is MISTRAL,
        shown=body.tool_objects,
    )


def _chosen(body: ChatBody, tools: list[Tool], call_format: ToolCallFormat | None) -> Toolbox:
    choice, several = body.tool_choice, body.parallel_tool_calls is not False
    if isinstance(choice, NamedTool):
        return _named(choice.function.name, tools)
    if choice == "required":
        return Toolbox(BARE, grammar=schema_grammar(_any_of(tools, several=several)))
    return Toolbox(call_format, single=not several)


def _named(name: str, tools: list[Tool]) -> Toolbox:
    tool = next((tool for tool in tools if tool.function.name == name), None)
    if tool is None:
        known = ", ".join(tool.function.name for tool in tools)
        raise BadInput(
            f"`tool_choice` names {shown(name)}, but `tools` lists {known:.200}: name one of them",
            field="tool_choice.function.name",
        )
    return Toolbox(named=name, grammar=schema_grammar(_parameters(tool.function)))


def _any_of(tools: list[Tool], *, several: bool) -> dict[str, Any]:
    """Return the schema of a list of calls, with the schema of each tool's arguments in place."""
    root = "#/items/anyOf/{}/properties/arguments"
    calls = [_call(tool.function, root.format(index)) for index, tool in enumerate(tools)]
    bound = {} if several else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **bound, "items": {"anyOf": calls}}


def _call(function: Function, root: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"const": function.name},
            "arguments": _moved(_parameters(function), root),
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _parameters(function: Function) -> dict[str, Any]:
    """Return the schema of a function's arguments: an object, also where `parameters` has no type."""
    return {**ANY_OBJECT, **(function.parameters or {})}


def _moved(part: Any, root: str) -> Any:
    """Return a schema, or a part of one, with its references to itself relative to `root`, its new place."""
    if isinstance(part, list):
        return [_moved(element, root) for element in part]
    if isinstance(part, dict) and not isinstance(part.get("$id"), str):  # else relative to that
        return {key: _member(key, value, root) for key, value in part.items()}
    return part


def _member(key: str, value: Any, root: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return root + value[1:]
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _moved(schema, root) for name, schema in value.items()}
    return value if key in _DATA else _moved(value, root)
