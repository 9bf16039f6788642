"""Grammars that crash, exhaust or delay the process that compiles them."""

from typing import Any, Final

from tests.unit.runtime.engine.continuous.grammar.innocent import Body


def chained_schema(links: int = 1101) -> dict[str, Any]:
    """Return a schema of so many references, each to the next: the compiler follows them by recursion."""
    defs: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}]} for n in range(links - 1)
    }
    defs[f"a{links - 1}"] = {"type": "string"}
    return {"$defs": defs, "$ref": "#/$defs/a0"}


def chained_rules(links: int = 3000) -> str:
    """Return a Lark grammar of so many rules, each the next."""
    rules = [f"r{n}: r{n + 1}" for n in range(links)]
    return "\n".join(["start: r0", *rules, f'r{links}: "a"'])


def repeated(digit: str, count: int = 9999) -> str:
    """Return a regular expression that compiles in no time, and whose first mask takes a second or 150 MB."""
    return f"({digit}{{{count}}}){{9999}}"


def body_with(**more: Any) -> Body:
    return {"prompt": "A gate", "max_tokens": 8, "temperature": 0, **more}


SCHEMA: Final = body_with(
    response_format={"type": "json_schema", "json_schema": {"schema": chained_schema()}}
)
RULES: Final = body_with(guided_grammar=chained_rules())
OPTIONS: Final = body_with(structured_outputs={"regex": "a?" * 30_000})
LETTERS: Final = body_with(guided_regex=repeated("d"))
