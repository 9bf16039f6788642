"""Prompts of a template that repeats the tools at every message, as Mistral's do, and what it may read."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tokenizers import Tokenizer, processors

from penstock_runtime.text import chat_template
from penstock_runtime.text.bounds import max_text_bytes
from penstock_runtime.text.encoding import PART_BYTES
from tests.unit.runtime.protocols.openai.served import POSITIONS, Served

REPEATING = (
    "{% for message in messages %}{{ message.reasoning_content }}{{ message.content }}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments | tojson }}"
    "{% endfor %}{% endfor %}{{ reasoning_effort }}"
)
LIMIT = max_text_bytes(POSITIONS)
LONG = "a" * (LIMIT + 1)
FIRST = 1
"""The token that the tokenizer puts before a text."""
PATHS = ["/v1/chat/completions", "/tokenize"]


def tool(description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": description}}


def called(arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "123456789", "function": {"name": "f", "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.fixture(scope="module")
def rendered() -> list[int]:
    """The sizes of the values that the template has rendered as JSON."""
    return []


@pytest.fixture(scope="module")
def repeating(
    model_folder: Path, tmp_path_factory: pytest.TempPathFactory, rendered: list[int]
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("repeating") / "model"
    shutil.copytree(model_folder, folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": REPEATING}))
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens.post_processor = processors.TemplateProcessing(
        "<|user|> $A", None, [("<|user|>", FIRST)]
    )
    tokens.save(str(folder / "tokenizer.json"))
    to_json: Callable[..., str] = chat_template._to_json

    def record(value: Any, **options: Any) -> str:
        text = to_json(value, **options)
        rendered.append(len(text))
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_template, "_to_json", record)
        served = Served(folder)
        yield served
        served.close()


@pytest.mark.parametrize("path", PATHS)
def test_tools_that_a_template_repeats_are_rendered_to_the_limit_only(
    repeating: Served, rendered: list[int], path: str
) -> None:
    rendered.clear()
    messages = [{"role": "user", "content": "a"}] * 4096
    answer = httpx2.post(
        repeating.url + path,
        json={"messages": messages, "tools": [tool("a" * 10_000)]},
        timeout=60,
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert 0 < sum(rendered) < LIMIT + PART_BYTES + 20_000


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tools": [tool(LONG)]}, "tools"),
        ({"chat_template_kwargs": {"unused": LONG}}, "chat_template_kwargs"),
        ({"messages": [{"role": "user", "content": "a"}, called({"a": LONG})]}, "messages"),
    ],
)
def test_what_a_template_may_read_is_limited_before_it_is_rendered(
    repeating: Served, rendered: list[int], path: str, more: dict[str, Any], field: str
) -> None:
    rendered.clear()
    body = {"messages": [{"role": "user", "content": "a"}], **more}
    error = httpx2.post(repeating.url + path, json=body, timeout=60).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", field)
    assert rendered == []


def test_deeply_nested_arguments_are_counted(repeating: Served) -> None:
    nested: dict[str, Any] = {}
    for _ in range(150):
        nested = {"a": nested}
    body = {"messages": [{"role": "user", "content": "a"}, called(nested)]}
    answer = httpx2.post(repeating.url + "/tokenize", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


def test_a_refusal_of_an_earlier_answer_is_text_and_a_part_without_text_is_named(
    repeating: Served,
) -> None:
    def answer(*parts: dict[str, str]) -> httpx2.Response:
        body = {"messages": [{"role": "assistant", "content": list(parts)}]}
        return httpx2.post(repeating.url + "/tokenize", json=body, timeout=60)

    refusal = answer({"type": "refusal", "refusal": "no"})
    assert refusal.json()["tokens"] == answer({"type": "text", "text": "no"}).json()["tokens"]
    for part, param in (({"type": "text"}, "text"), ({"type": "image_url"}, "type")):
        error = answer(part).json()["error"]
        assert error["param"] == f"messages.0.content.0.{param}"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_of_earlier_answers_reaches_the_template_by_either_name(
    repeating: Served, name: str
) -> None:
    def tokens(message: dict[str, str]) -> Any:
        body = {"messages": [{"role": "assistant", **message}]}
        return httpx2.post(repeating.url + "/tokenize", json=body, timeout=60).json()["tokens"]

    assert tokens({"content": "b", name: "a"}) == tokens({"content": "ab"})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"reasoning_effort": "high"},
        {"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}},
        {"add_special_tokens": True},
        {"tools": [tool("a")], "add_generation_prompt": False},
    ],
)
def test_tokenize_has_the_tokens_of_the_prompt_of_a_chat(
    repeating: Served, more: dict[str, Any]
) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], **more}
    tokens = httpx2.post(repeating.url + "/tokenize", json=body, timeout=60).json()["tokens"]
    chat_body = {**body, "max_tokens": 1, "return_token_ids": True}
    chat = httpx2.post(repeating.url + "/v1/chat/completions", json=chat_body, timeout=60).json()
    assert tokens == chat["prompt_token_ids"]
    plain = httpx2.post(
        repeating.url + "/tokenize", json={"messages": body["messages"]}, timeout=60
    )
    assert (tokens == plain.json()["tokens"]) == (not more)
    assert (tokens[0] == FIRST) == ("add_special_tokens" in more)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("continue_final_message", True),
        ("chat_template", "{{ messages }}"),
        ("documents", [{"text": "a"}]),
        ("mm_processor_kwargs", {"a": 1}),
    ],
)
def test_an_option_of_templates_that_is_not_supported_is_named(
    repeating: Served, path: str, field: str, value: Any
) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], field: value}
    error = httpx2.post(repeating.url + path, json=body, timeout=60).json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_parameter", field)
