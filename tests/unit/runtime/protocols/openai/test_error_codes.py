"""Exceptions of the `openai` client, with OpenAI's `code` and `type`, for every kind of fault."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.unit.runtime.protocols.openai.served import POSITIONS, Served

HELLO = [{"role": "user", "content": "Hello"}]
LONG = "word " * 2000
INVALID = "invalid_request_error"


def chat(client: openai.OpenAI, **more: Any) -> None:
    client.chat.completions.create(**{"model": "tiny", "messages": HELLO, "max_tokens": 1, **more})


FAULTS: list[tuple[str, dict[str, Any], type[openai.APIStatusError], str, str]] = [
    ("other-model", {"model": "gpt"}, openai.NotFoundError, "model_not_found", "model"),
    ("long-prompt", {"messages": [{"role": "user", "content": LONG}]}, openai.BadRequestError, "context_length_exceeded", "messages"),
    ("long-answer", {"max_tokens": POSITIONS}, openai.BadRequestError, "context_length_exceeded", "max_tokens"),
    ("no-messages", {"messages": []}, openai.BadRequestError, "empty_array", "messages"),
    ("hot", {"temperature": 101}, openai.BadRequestError, "decimal_above_max_value", "temperature"),
    ("cold", {"temperature": -1}, openai.BadRequestError, "decimal_below_min_value", "temperature"),
    ("none", {"max_tokens": 0}, openai.BadRequestError, "integer_below_min_value", "max_tokens"),
    ("many", {"n": 1000}, openai.BadRequestError, "integer_above_max_value", "n"),
    ("text-for-number", {"max_tokens": "many"}, openai.BadRequestError, "invalid_type", "max_tokens"),
    ("many-stops", {"stop": ["a"] * 99}, openai.BadRequestError, "array_above_max_length", "stop"),
    ("odd-choice", {"tool_choice": "perhaps"}, openai.BadRequestError, "invalid_value", "tool_choice"),
    ("nameless-tool", {"tool_choice": {"type": "function", "function": {}}}, openai.BadRequestError, "missing_required_parameter", "tool_choice.function.name"),
    ("odd-tool", {"tool_choice": {"type": "function", "function": {"name": 3}}}, openai.BadRequestError, "invalid_type", "tool_choice.function.name"),
    ("other-choice", {"tool_choice": {"type": "allowed_tools"}}, openai.BadRequestError, "invalid_value", "tool_choice.type"),
    ("odd-part", {"messages": [{"role": "user", "content": [3]}]}, openai.BadRequestError, "invalid_type", "messages.0.content.0"),
    ("unsupported", {"functions": [{}]}, openai.BadRequestError, "unsupported_parameter", "functions"),
    ("no-schema", {"response_format": {"type": "json_schema"}}, openai.BadRequestError, "invalid_value", "response_format.json_schema.schema"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "kind", "code", "param"),
    [fault[1:] for fault in FAULTS],
    ids=[fault[0] for fault in FAULTS],
)
def test_a_fault_has_openais_class_code_and_param(
    client: openai.OpenAI,
    more: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    param: str,
) -> None:
    with pytest.raises(kind) as raised:
        chat(client, extra_body=more)
    assert (raised.value.code, raised.value.param, raised.value.type) == (code, param, INVALID)


def test_a_missing_field_is_a_missing_required_parameter(http: httpx2.Client) -> None:
    error = http.post("/v1/chat/completions", json={}).json()["error"]
    assert (error["code"], error["param"]) == ("missing_required_parameter", "messages")


@pytest.mark.parametrize("field", ["messages", "max_tokens"])
def test_litellm_recognizes_a_context_that_is_too_long_by_its_message(
    client: openai.OpenAI, field: str
) -> None:
    more = (
        {"messages": [{"role": "user", "content": LONG}]}
        if field == "messages"
        else {field: POSITIONS}
    )
    with pytest.raises(
        openai.BadRequestError, match="this model's maximum context length is 1024 tokens"
    ):
        chat(client, extra_body=more)


def test_langchain_recognizes_a_prompt_that_is_too_long_by_its_message(
    client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError, match="prompt is too long"):
        chat(client, messages=[{"role": "user", "content": LONG}])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nowhere", 404, "unknown_url"),
        ("POST", "/v1/nowhere", 404, "unknown_url"),
        ("GET", "/v1", 404, "unknown_url"),
        ("POST", "/v1/chat/completions/", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_supported"),
        ("DELETE", "/v1/models", 405, "method_not_supported"),
        ("GET", "/tokenize", 405, "method_not_supported"),
    ],
)
def test_a_wrong_path_or_method_is_openais_error_object(
    http: httpx2.Client, method: str, path: str, status: int, code: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == (INVALID, None, code)
    assert f"{method} '{path}'" in error["message"]
    assert ("Allow" in answer.headers) == (status == 405)


def test_a_defect_below_v1_is_openais_error_object_too(
    served: Served, http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.pod, "check_model", None)
    answer = http.get("/v1/models/tiny")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"


@pytest.fixture(scope="module")
def guarded(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A pod with a key, and a second key that allows one request a minute."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    keys = [
        {"key": "known-key", "tenant": "a"},
        {"key": "slow-key-1", "tenant": "b", "requestsPerMinute": 1},
    ]
    path.write_text(json.dumps({"keys": keys}))
    served = Served(model_folder, api_keys_file=path)
    assert served.pod.callers._ring is not None
    served.pod.callers._ring.reload()
    yield served
    served.close()


def test_an_unknown_key_is_an_authentication_error(guarded: Served) -> None:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            client.models.list()
        assert (raised.value.code, raised.value.type) == ("invalid_api_key", INVALID)


def test_a_key_with_too_many_requests_is_a_rate_limit_error(guarded: Served) -> None:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="slow-key-1", max_retries=0) as client:
        client.models.list()
        with pytest.raises(openai.RateLimitError) as raised:
            client.models.list()
        assert raised.value.code == "rate_limit_exceeded"
        assert raised.value.body["message"]  # type: ignore[index]
        assert raised.value.response.headers["Retry-After"]
