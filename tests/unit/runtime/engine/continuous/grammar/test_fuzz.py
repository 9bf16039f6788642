"""Random schemas, regular expressions and rules, harmless and hostile: each is answered or rejected, and streams go on."""

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import httpx2
import pytest

from tests.support.fuzz.budget import Fuzz
from tests.unit.runtime.engine.continuous.grammar.hostile import (
    body_with,
    chained_rules,
    chained_schema,
    repeated,
)
from tests.unit.runtime.engine.continuous.grammar.innocent import Body, Innocent
from tests.unit.runtime.protocols.openai.served import Served

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object", "odd")


def schema(draw: Random, depth: int = 0) -> Any:
    """Return a schema, mostly valid."""
    if depth > 4 or draw.random() < 0.3:
        return draw.choice(
            [
                {"type": draw.choice(TYPES)},
                {"enum": [draw.choice([1, "a", None, 1.5])]},
                {"type": "string", "pattern": expression(draw)},
                {"type": "integer", "minimum": draw.randrange(10**9)},
                {"type": "string", "maxLength": draw.choice([1, 50, 10**6])},
                {"$ref": draw.choice(["#", "#/$defs/a", "#/nowhere"])},
                True,
                {},
            ]
        )
    parts = [schema(draw, depth + 1) for _ in range(draw.randint(1, 4))]
    match draw.randrange(4):
        case 0:
            return {"type": "array", "items": parts[0], "minItems": draw.choice([0, 2, 10**5])}
        case 1:
            return {draw.choice(["anyOf", "oneOf", "allOf"]): parts}
        case 2:
            return {"$defs": {"a": parts[0]}, "anyOf": parts}
    members = {f"p{n}": part for n, part in enumerate(parts)}
    return {"type": "object", "properties": members, "required": list(members)}


def expression(draw: Random, depth: int = 0) -> str:
    """Return a regular expression, mostly valid."""
    if depth > 3 or draw.random() < 0.3:
        return draw.choice(["a", "[a-z]", r"\d", ".", "(", "é", r"\p{L}", "abc", "(?=a)", "^$"])
    inner = expression(draw, depth + 1)[:500]
    most = draw.choice([1, 9, 99, 9999, 10**6])
    return draw.choice(
        [
            f"({inner})*",
            f"({inner}){{{most}}}",
            f"({inner}){{0,{most}}}",
            f"({inner}|{expression(draw, depth + 1)})",
            inner + expression(draw, depth + 1),
            (inner + "?") * min(most, 50),
        ]
    )


def rules(draw: Random) -> str:
    """Return a Lark grammar, mostly valid."""
    count = draw.choice([1, 3, 30, 300])
    lines = ["start: r0"]
    for n in range(count):
        arms = [
            draw.choice([f"r{draw.randint(0, count)}", '"a"', f"/{expression(draw)}/", "%json {}"])
            for _ in range(draw.randint(1, 3))
        ]
        lines.append(f"r{n}: {draw.choice([' ', ' | ']).join(arms)}")
    return "\n".join([*lines, f'r{count}: "z"'])


HOSTILE: list[Callable[[Random], Body]] = [
    lambda draw: body_with(guided_json=chained_schema(draw.choice([100, 1000, 3000]))),
    lambda draw: body_with(guided_grammar=chained_rules(draw.choice([100, 1000, 4000]))),
    lambda draw: body_with(guided_regex=repeated(draw.choice(["d", r"\d", "(a|b)"]), draw.randrange(9999))),
    lambda draw: body_with(guided_regex=draw.choice(["a?", "a*", "(a|b)"]) * draw.randrange(15_000)),
    lambda draw: body_with(guided_json='{"not":' * draw.randrange(9000)),
    lambda draw: body_with(guided_regex="(" * draw.randrange(60_000)),
]  # fmt: skip
HARMLESS: list[Callable[[Random], Body]] = [
    lambda draw: body_with(guided_json=schema(draw)),
    lambda draw: body_with(guided_json=json.dumps(schema(draw))),
    lambda draw: body_with(guided_regex=expression(draw)),
    lambda draw: body_with(guided_grammar=rules(draw)),
    lambda draw: body_with(guided_choice=[expression(draw)]),
]


def every_grammar_is_answered_or_rejected(pod: Served, fuzz: Fuzz) -> None:
    draw, seen, innocent = fuzz.random, Counter[int](), Innocent(pod.url)
    with innocent.streaming(), httpx2.Client(base_url=pod.url, timeout=120) as http:
        for _ in fuzz.rounds():
            kinds = HOSTILE if draw.random() < 0.2 else HARMLESS
            body = draw.choice(kinds)(draw)
            body["min_tokens"] = draw.choice([0, 0, 5])
            answer = http.post("/v1/completions", json=body)
            seen[answer.status_code] += 1
            where = f"{fuzz.where()}: {str(body)[:300]} -> {answer.status_code} {answer.text[:300]}"
            assert answer.status_code in (200, 400), where
            assert answer.status_code == 200 or answer.json()["error"]["param"], where
            assert not innocent.failed, where
    print(dict(seen), f"{innocent.tokens} tokens, longest gap {innocent.longest_seconds:.3f} s")


def test_random_grammars_are_answered_or_rejected(pod: Served) -> None:
    every_grammar_is_answered_or_rejected(pod, Fuzz("grammars", 40, seed=1))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_random_grammars_are_answered_or_rejected(pod: Served) -> None:
    every_grammar_is_answered_or_rejected(pod, Fuzz("grammars", 3000))
