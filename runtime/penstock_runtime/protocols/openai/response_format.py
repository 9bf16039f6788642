"""Conversion of OpenAI's `response_format` and vLLM's `structured_outputs` to one grammar."""

import json
from typing import Any, Final, Literal

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind, GrammarSpec
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.wire.options import (
    GenerationOptions,
    ResponseFormat,
    StructuredOutputs,
)

ANY_OBJECT = {"type": "object"}
_SCHEMA: Final = "response_format.json_schema.schema"


def grammar_of(body: GenerationOptions) -> tuple[GrammarSpec, str] | None:
    """Return the grammar that `body` requests and the field that requests it, or None.

    Raises:
        BadInput: several fields request a format, or a field lacks its member, or allows no answer.
    """
    grammars = [
        (spec, field)
        for spec, field in (
            (_of_format(body.response_format), "response_format"),
            (_of_structured(body.structured_outputs), "structured_outputs"),
            (_json(body.guided_json), "guided_json"),
            (_regex(body.guided_regex), "guided_regex"),
            (_choice(body.guided_choice), "guided_choice"),
            (_lark(body.guided_grammar), "guided_grammar"),
        )
        if spec is not None
    ]
    if len(grammars) > 1:
        raise BadInput(
            f"`{grammars[0][1]}` and `{grammars[1][1]}` both set the format of the answer: send one of them",
            field=grammars[1][1],
        )
    return grammars[0] if grammars else None


def _of_format(given: ResponseFormat | None) -> GrammarSpec | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return _json(ANY_OBJECT)
    if given.type == "json_schema":
        schema = given.json_schema
        if schema is None or schema.schema_ is None:
            raise _missing(_SCHEMA, "json_schema")
        if schema.schema_ is False:
            raise BadInput(
                f"`{_SCHEMA}` is false, which no answer satisfies: send a schema of the answers, or true for any JSON",
                field=_SCHEMA,
            )
        return schema_grammar(schema.schema_)
    member = given.regex if given.type == "regex" else given.grammar
    if member is None:
        raise _missing(f"response_format.{given.type}", given.type)
    return _regex(member) if given.type == "regex" else _lark(member)


def _of_structured(given: StructuredOutputs | None) -> GrammarSpec | None:
    if given is None:
        return None
    grammars = [
        grammar
        for grammar in (
            _json(given.json_),
            _regex(given.regex),
            _choice(given.choice),
            _lark(given.grammar),
            _json(ANY_OBJECT if given.json_object else None),
        )
        if grammar is not None
    ]
    if len(grammars) != 1:
        raise BadInput(
            f"`structured_outputs` has {len(grammars)} members that set a format: send one of json,"
            " regex, choice, grammar, json_object",
            field="structured_outputs",
        )
    return grammars[0]


def schema_grammar(schema: dict[str, Any] | Literal[True]) -> GrammarSpec:
    """Return the grammar of a JSON schema; equal schemas give equal grammars, which compile once."""
    described = {} if schema is True else schema
    return GrammarSpec(GrammarKind.JSON_SCHEMA, json.dumps(described, ensure_ascii=False))


def _json(given: dict[str, Any] | str | None) -> GrammarSpec | None:
    if given is None:
        return None
    return (
        GrammarSpec(GrammarKind.JSON_SCHEMA, given)
        if isinstance(given, str)
        else schema_grammar(given)
    )


def _regex(given: str | None) -> GrammarSpec | None:
    return None if given is None else GrammarSpec(GrammarKind.REGEX, given)


def _choice(given: list[str] | None) -> GrammarSpec | None:
    if given is None:
        return None
    arms = " | ".join(json.dumps(option, ensure_ascii=False) for option in given)
    arms = arms.replace("\x7f", r"\u007f")  # a string of Lark has no control characters
    return GrammarSpec(GrammarKind.LARK, f"start: {arms}")


def _lark(given: str | None) -> GrammarSpec | None:
    return None if given is None else GrammarSpec(GrammarKind.LARK, given)


def _missing(field: str, kind: str) -> BadInput:
    return BadInput(f"`{field}` is missing: type {kind!r} needs it", field=field)
