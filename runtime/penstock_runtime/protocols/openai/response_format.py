"""What shape an answer must have: OpenAI's `response_format`, vLLM's `structured_outputs`, as one grammar."""

import json
from typing import Any, Literal

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind, GrammarSpec
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.wire.options import (
    GenerationOptions,
    ResponseFormat,
    StructuredOutputs,
)

ANY_OBJECT = {"type": "object"}


def grammar_of(body: GenerationOptions) -> tuple[GrammarSpec, str] | None:
    """Return the grammar that `body` asks for and the field that asks, or None.

    Raises:
        BadInput: several fields ask, or one that asks lacks its member.
    """
    asked = [
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
    if len(asked) > 1:
        raise BadInput(
            f"`{asked[0][1]}` and `{asked[1][1]}` both ask for a shape: give one of them",
            field=asked[1][1],
        )
    return asked[0] if asked else None


def _of_format(given: ResponseFormat | None) -> GrammarSpec | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return _json(ANY_OBJECT)
    if given.type == "json_schema":
        schema = given.json_schema
        if schema is None or schema.schema_ is None:
            raise _missing("response_format.json_schema.schema", "json_schema")
        return schema_grammar(schema.schema_)
    member = given.regex if given.type == "regex" else given.grammar
    if member is None:
        raise _missing(f"response_format.{given.type}", given.type)
    return _regex(member) if given.type == "regex" else _lark(member)


def _of_structured(given: StructuredOutputs | None) -> GrammarSpec | None:
    if given is None:
        return None
    found = [
        one
        for one in (
            _json(given.json_),
            _regex(given.regex),
            _choice(given.choice),
            _lark(given.grammar),
            _json(ANY_OBJECT if given.json_object else None),
        )
        if one is not None
    ]
    if len(found) != 1:
        raise BadInput(
            f"`structured_outputs` has {len(found)} members that ask for a shape: give one of json,"
            " regex, choice, grammar, json_object",
            field="structured_outputs",
        )
    return found[0]


def schema_grammar(schema: dict[str, Any] | Literal[True, False]) -> GrammarSpec:
    """Return the grammar of a JSON schema; equal schemas make equal grammars, so that one compiles once."""
    return GrammarSpec(GrammarKind.JSON_SCHEMA, json.dumps(schema, ensure_ascii=False))


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
    arms = " | ".join(json.dumps(one, ensure_ascii=False) for one in given)
    return GrammarSpec(GrammarKind.LARK, f"start: {arms}")


def _lark(given: str | None) -> GrammarSpec | None:
    return None if given is None else GrammarSpec(GrammarKind.LARK, given)


def _missing(field: str, kind: str) -> BadInput:
    return BadInput(f"`{field}` is missing: type {kind!r} needs it", field=field)
