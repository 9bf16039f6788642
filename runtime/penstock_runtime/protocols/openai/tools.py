"""Which tools an answer may or must call, and the grammar that makes it."""

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock_runtime.engine.continuous.grammar.spec import GrammarSpec
from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.openai.response_format import ANY_OBJECT, schema_grammar
from penstock_runtime.protocols.openai.wire.chat import ChatBody, Function, NamedTool, Tool
from penstock_runtime.text.tool_calls import BARE, MISTRAL, Spelling, spelling_of

_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Of a schema: members that hold schemas by names of the author's own."""
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Of a schema: members that hold values."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """How the calls in an answer are found."""

    spelling: Spelling | None = None
    """None: nothing is looked for."""
    named: str | None = None
    """The whole answer is the arguments of this function."""
    grammar: GrammarSpec | None = None
    single: bool = False
    """Whether calls after the first are left out, where no grammar forbids them."""
    short_ids: bool = False
    """Whether ids have nine letters and digits: Mistral's templates take no others back."""
    shown: tuple[dict[str, Any], ...] = ()
    """What the model's template is shown."""

    @property
    def markers(self) -> tuple[str, ...]:
        """What must not be missing in the text for calls to be found."""
        return self.spelling.markers if self.spelling is not None else ()

    def new_id(self) -> str:
        """Return the id of a call."""
        return secrets.token_hex(5)[:9] if self.short_ids else f"call_{secrets.token_hex(12)}"


def toolbox(body: ChatBody, template: str) -> Toolbox:
    """Return what `tools` and `tool_choice` ask for, with a model whose chat template is `template`.

    Raises:
        BadInput: the choice names no tool of the list.
    """
    tools = body.tools or []
    choice = body.tool_choice
    if choice == "none":
        return Toolbox()
    if not tools:
        if choice in (None, "auto"):
            return Toolbox()
        raise BadInput("`tool_choice` needs `tools`: list them", field="tool_choice")
    spelling = spelling_of(template)
    return replace(
        _chosen(body, tools, spelling),
        short_ids=spelling is MISTRAL,
        shown=tuple(one.model_dump(exclude_none=True) for one in tools),
    )


def _chosen(body: ChatBody, tools: list[Tool], spelling: Spelling | None) -> Toolbox:
    choice, several = body.tool_choice, body.parallel_tool_calls is not False
    if isinstance(choice, NamedTool):
        return _named(choice.function.name, tools)
    if choice == "required":
        return Toolbox(BARE, grammar=schema_grammar(_any_of(tools, several=several)))
    return Toolbox(spelling, single=not several)


def _named(name: str, tools: list[Tool]) -> Toolbox:
    found = next((one for one in tools if one.function.name == name), None)
    if found is None:
        known = ", ".join(one.function.name for one in tools)
        raise BadInput(
            f"`tool_choice` names {shown(name)}, but `tools` lists {known:.200}: name one of them",
            field="tool_choice.function.name",
        )
    return Toolbox(named=name, grammar=schema_grammar(_parameters(found.function)))


def _any_of(tools: list[Tool], *, several: bool) -> dict[str, Any]:
    """Return the schema of a list of calls; each tool's own lies in it where it is used."""
    home = "#/items/anyOf/{}/properties/arguments"
    calls = [_call(one.function, home.format(place)) for place, one in enumerate(tools)]
    most = {} if several else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **most, "items": {"anyOf": calls}}


def _call(function: Function, home: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"const": function.name},
            "arguments": _moved(_parameters(function), home),
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _parameters(function: Function) -> dict[str, Any]:
    """Return the schema of a function's arguments: an object's, though its author may not say so."""
    return {**ANY_OBJECT, **(function.parameters or {})}


def _moved(part: Any, home: str) -> Any:
    """Return a schema, or a part of one, whose references to itself count from `home`, where it now lies."""
    if isinstance(part, list):
        return [_moved(one, home) for one in part]
    if isinstance(part, dict) and not isinstance(part.get("$id"), str):  # or they count from there
        return {key: _member(key, value, home) for key, value in part.items()}
    return part


def _member(key: str, value: Any, home: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return home + value[1:]
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _moved(one, home) for name, one in value.items()}
    return value if key in _DATA else _moved(value, home)
