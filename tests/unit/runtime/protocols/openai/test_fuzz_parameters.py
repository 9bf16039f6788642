"""Fuzz test of every field of text and token bodies with odd values: errors name the field and are never a 500.

Most bodies are read as the routes read them, without an engine; some are sent over HTTP.
"""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import httpx2
import pytest

from penstock_runtime.errors import BadInput, RequestRejected, UnknownModel
from penstock_runtime.protocols.openai.chat.conversion import chat_answer
from penstock_runtime.protocols.openai.completions import completion_answer
from penstock_runtime.protocols.openai.sampling import Terms
from penstock_runtime.protocols.openai.wire.base import WireBody, read
from penstock_runtime.protocols.openai.wire.chat import ChatBody
from penstock_runtime.protocols.openai.wire.completion import (
    CompletionBody,
    DetokenizeBody,
    TokenizeBody,
)
from penstock_runtime.protocols.openai.wire.generate import GenerateBody, GenerateParameters
from penstock_runtime.protocols.triton_generate import _completion
from penstock_runtime.serving.auth.callers import ANYBODY
from tests.support.fuzz.budget import Fuzz
from tests.support.fuzz.texts import MARK, damage, dumped, spoil
from tests.unit.runtime.protocols.openai.served import NAME, Served

HELLO: Final = [{"role": "user", "content": "Hello"}]
TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PLAUSIBLE: Final[dict[str, list[Any]]] = {
    "messages": [
        HELLO,
        [{"role": "system", "content": [{"type": "text", "text": "a"}]}, *HELLO],
        [*HELLO, {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}],
        [*HELLO, {"role": "tool", "tool_call_id": "1", "content": "a", "name": "f"}],
    ],
    "prompt": ["a", ["a", "b"], [5, 6], [[5], [6, 7]]],
    "tokens": [[5, 6], []],
    "tools": [[TOOL], []],
    "tool_choice": ["none", "auto", {"type": "function", "function": {"name": "f"}}],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "structured_outputs": [{"choice": ["a", "b"]}],
    "stop": ["a", ["a", "b"]],
    "stop_token_ids": [[5]],
    "logit_bias": [{"5": 1}, {"5": -100.0, "6": 2}],
    "stream_options": [{"include_usage": True}],
    "chat_template_kwargs": [{"a": 1}],
    "text_input": ["a"],
    "model": [NAME],
    "cache_salt": ["a"],
    "reasoning_effort": ["low"],
    "guided_choice": [["a", "b"]],
    "logprobs": [1, True],
    "min_tokens": [0, 1],
}  # fmt: skip
"""Valid values of fields that accept no number or boolean."""
SIMPLE: Final = [0, 1, 2, 0.5, 1.0, True, False, "a", "1", None]
EXACT: Final[dict[type, tuple[type, ...]]] = {
    int: (int,),
    float: (int, float),
    bool: (bool,),
    str: (str,),
}
ENDPOINTS: Final[dict[str, type[WireBody]]] = {
    "/v1/chat/completions": ChatBody,
    "/v1/completions": CompletionBody,
    "/v2/models/tiny/generate": GenerateBody,
    "/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
}
NEEDED: Final[dict[type[WireBody], dict[str, Any]]] = {
    ChatBody: {"messages": HELLO},
    CompletionBody: {"prompt": "a"},
    GenerateBody: {"text_input": "a"},
    TokenizeBody: {"prompt": "a"},
    DetokenizeBody: {"tokens": [5]},
}


def names_of(kind: type[WireBody]) -> list[str]:
    return sorted({*kind.model_fields, *kind.unsupported, *kind.ignored})


KINDS: Final[tuple[type[WireBody], ...]] = (*NEEDED, GenerateParameters)
NAMES: Final = {kind: names_of(kind) for kind in KINDS}


def some_fields(kind: type[WireBody], draw: Random) -> dict[str, Any]:
    """Return up to three fields with a plausible or an odd value."""
    body: dict[str, Any] = {}
    for name in draw.sample(NAMES[kind], min(draw.choice((1, 1, 1, 2, 3)), len(NAMES[kind]))):
        known = PLAUSIBLE.get(name, SIMPLE)
        value = (
            MARK if draw.random() < 0.4 else draw.choice(known if draw.random() < 0.7 else SIMPLE)
        )
        body[name] = json.loads(json.dumps(value))
    return body


def tree_of(kind: type[WireBody], draw: Random) -> dict[str, Any]:
    needed: dict[str, Any] = json.loads(json.dumps(NEEDED[kind]))
    if kind is GenerateBody:
        inner = {"max_tokens": 2, **some_fields(GenerateParameters, draw)}
        return {**needed, "parameters": inner}
    short = {"max_tokens": 2} if kind in (ChatBody, CompletionBody) else {}
    return {**needed, **short, **some_fields(kind, draw)}


def body_of(kind: type[WireBody], draw: Random) -> bytes:
    tree = tree_of(kind, draw)
    text = dumped(spoil(tree, draw) if draw.random() < 0.3 else tree, draw)
    return damage(text, draw) if draw.random() < 0.1 else text


def simple_type(kind: type[WireBody], name: str) -> type | None:
    """Return the type of a field that is int, float, bool or str, or that or null."""
    field = kind.model_fields.get(name)
    if field is None:
        return None
    annotation = field.annotation
    arms = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    plain = [get_args(arm)[0] if get_origin(arm) is Annotated else arm for arm in arms]
    kinds = [arm for arm in plain if arm is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in EXACT else None


TYPES: Final = {
    kind: {name: simple for name in NAMES[kind] if (simple := simple_type(kind, name)) is not None}
    for kind in KINDS
}


def coerced(kind: type[WireBody], body: dict[str, Any]) -> list[str]:
    """Return the fields of an accepted body with values of a wrong type."""
    inner = body.get("parameters") if kind is GenerateBody else None
    wrong = coerced(GenerateParameters, inner) if isinstance(inner, dict) else []
    return wrong + [
        name
        for name, wanted in TYPES[kind].items()
        if body.get(name) is not None and type(body[name]) not in EXACT[wanted]
    ]


def known_field(kind: type[WireBody], field: str | None) -> bool:
    root = (field or "").split(".")[0]
    if kind is GenerateBody and root == "parameters" and field != "parameters":
        root, kind = (field or "").split(".")[1], GenerateParameters
    return root in ("body", "model") or root in NAMES[kind]


class Judge:
    """Reads and judges bodies as the routes do, in the pod's own loop."""

    def __init__(self, served: Served) -> None:
        self._pod = served.pod
        self._terms = Terms(served.pod.engine.require_serving(), ANYBODY)

    async def rejection(self, kind: type[WireBody], raw: bytes) -> RequestRejected | None:
        """Return the rejection of a body; any other exception would be a 500."""
        try:
            await self._judge(kind, raw)
        except (BadInput, UnknownModel) as rejected:
            return rejected
        return None

    async def _judge(self, kind: type[WireBody], raw: bytes) -> None:
        body = read(kind, raw)
        self._pod.check_model(getattr(body, "requested_model", getattr(body, "model", None)))
        with ExitStack() as resources:
            terms = replace(self._terms, resources=resources)
            match body:
                case ChatBody():
                    await chat_answer(body, NAME, terms)
                case CompletionBody():
                    await completion_answer(body, NAME, terms)
                case GenerateBody():
                    await _completion(body, NAME, terms)


async def every_field_is_judged(served: Served, fuzz: Fuzz) -> None:
    judge, draw, outcomes = Judge(served), fuzz.random, Counter[str]()
    for _ in fuzz.rounds():
        kind = draw.choice(
            (
                ChatBody,
                ChatBody,
                CompletionBody,
                CompletionBody,
                GenerateBody,
                TokenizeBody,
                DetokenizeBody,
            )
        )
        raw = body_of(kind, draw)
        where = f"{fuzz.where()}: {kind.__name__} {raw!r}"
        try:
            rejected = await judge.rejection(kind, raw)
        except Exception as error:
            raise AssertionError(f"{where} is a 500: {error!r}") from error
        outcomes["rejected" if rejected else "valid"] += 1
        if rejected:
            assert rejected.message, where
            assert known_field(kind, rejected.field), (
                f"{where}: {rejected.field}: {rejected.message}"
            )
        else:
            assert coerced(kind, json.loads(raw)) == [], where
    print(dict(outcomes))
    assert min(outcomes["valid"], outcomes["rejected"]) > fuzz.done / 20


def test_every_field_with_odd_values_is_checked_by_name(served: Served) -> None:
    served.wait(every_field_is_judged(served, Fuzz("parameters", 6000, seed=1)), 100)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_field_with_many_odd_values_is_checked_by_name(served: Served) -> None:
    served.wait(every_field_is_judged(served, Fuzz("parameters", 500_000)), 7200)


def http_answers(served: Served, fuzz: Fuzz) -> None:
    """Send bodies to every route; each is answered in full, or rejected in the format of its protocol."""
    draw, counts = fuzz.random, Counter[int]()
    with httpx2.Client(base_url=served.url, timeout=60) as http:
        for _ in fuzz.rounds():
            path = draw.choice(list(ENDPOINTS))
            raw = body_of(ENDPOINTS[path], draw)
            if path.endswith("/generate") and draw.random() < 0.3:
                path += "_stream"
            answer = http.post(path, content=raw)
            counts[answer.status_code] += 1
            where = f"{fuzz.where()}: {path} {raw!r} -> {answer.status_code} {answer.text[:300]}"
            if answer.status_code == 200:
                assert '"server_error"' not in answer.text, where
                continue
            if answer.status_code in (429, 504):
                continue  # a deadline of microseconds
            assert answer.status_code in (400, 404, 413), where
            error = answer.json()["error"]
            if path.startswith("/v2/"):
                assert error, where
                assert answer.json()["field"], where
                continue
            assert error.keys() == {"message", "type", "param", "code"}, where
            assert error["message"], where
            assert error["param"], where
            assert error["type"] == "invalid_request_error", where
    print(dict(counts))
    assert min(counts[200], counts[400]) > fuzz.done / 20


def test_odd_values_are_answered_or_rejected_by_field(served: Served) -> None:
    http_answers(served, Fuzz("parameters over HTTP", 250, seed=1))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_odd_values_are_answered_or_rejected_by_field(served: Served) -> None:
    http_answers(served, Fuzz("parameters over HTTP", 20_000))
