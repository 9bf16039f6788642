"""Callers and deadlines from keys, headers and bodies, as they reach the engine, for every protocol."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from penstock_runtime.engine.continuous.messages import Generate
from tests.unit.runtime.protocols.openai.served import Served

KEYS = {
    "keys": [
        {"key": "secret-of-a", "tenant": "a", "bestPriority": 3, "maxTokens": 4},
        {"key": "secret-of-b", "tenant": "b"},
    ]
}
BEARER = {name: {"Authorization": f"Bearer secret-of-{name}"} for name in ("a", "b")}
SHORT = {"prompt": "The river", "max_tokens": 1}
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
PROTOCOLS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "/v1/completions": lambda more: {**SHORT, **more},
    "/v1/chat/completions": lambda more: {**CHAT, **more},
    "/v2/models/tiny/generate": lambda more: {
        "text_input": "The river",
        "parameters": {"max_tokens": 1, **more},
    },
}
"""Body of each path, from the options of a test."""


@pytest.fixture(scope="module")
def guarded(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(json.dumps(KEYS))
    served = Served(model_folder, api_keys_file=path)
    assert served.pod.callers._ring is not None
    served.pod.callers._ring.reload()
    yield served
    served.close()


def reached(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[Generate]:
    """Return the generations that will reach the engine."""
    submitted: list[Generate] = []
    admission = served.pod.admission
    send = admission._send

    def note(message: Any) -> None:
        if isinstance(message, Generate):
            submitted.append(message)
        send(message)

    monkeypatch.setattr(admission, "_send", note)
    return submitted


def post(served: Served, path: str, headers: dict[str, str], **more: Any) -> Any:
    """Return the answer to a short body of the path's protocol."""
    body = PROTOCOLS[path](more)
    answer = httpx2.post(served.url + path, json=body, headers=headers, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize(
    ("headers", "body", "granted"),
    [
        ({}, {}, (3, "a", "a\0")),
        ({"X-Penstock-Priority": "5"}, {}, (5, "a", "a\0")),
        ({"X-Penstock-Priority": "1"}, {}, (3, "a", "a\0")),
        ({}, {"priority": 7}, (7, "a", "a\0")),
        ({}, {"priority": 1}, (3, "a", "a\0")),
        ({"X-Penstock-Priority": "5"}, {"priority": 7}, (7, "a", "a\0")),
        ({"X-Penstock-Tenant": "b"}, {"cache_salt": "s"}, (3, "a", "a\0s")),
    ],
    ids=["key", "header", "header-too-high", "body", "body-too-high", "both", "salt"],
)
def test_the_grants_of_a_key_reach_the_engine(  # noqa: PLR0917 - a case's parts, by name
    guarded: Served,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    headers: dict[str, str],
    body: dict[str, Any],
    granted: tuple[int, str, str],
) -> None:
    submitted = reached(guarded, monkeypatch)
    post(guarded, path, {**BEARER["a"], **headers}, **body)
    assert [(request.priority, request.tenant, request.salt) for request in submitted] == [granted]


@pytest.mark.parametrize("path", PROTOCOLS)
def test_without_keys_the_body_alone_reaches_the_engine(
    served: Served, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    submitted = reached(served, monkeypatch)
    headers = {"X-Penstock-Tenant": "a", "X-Penstock-Priority": "5"}  # from an untrusted proxy
    post(served, path, headers)
    post(served, path, headers, priority=2, cache_salt="s")
    granted_requests = [(request.priority, request.tenant, request.salt) for request in submitted]
    assert granted_requests == [(0, "", ""), (2, "", "\0s")]


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize(("body_seconds", "seconds"), [(None, 9), (8, 8), (10, 9)])
def test_the_shorter_time_of_header_and_body_reaches_the_engine(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body_seconds: int | None,
    seconds: int,
) -> None:
    submitted = reached(served, monkeypatch)
    unit = 1_000_000 if path.endswith("/generate") else 1
    body = {} if body_seconds is None else {"timeout": body_seconds * unit}
    post(served, path, {"X-Request-Timeout-Ms": "9000"}, **body)
    [request] = submitted
    assert request.deadline is not None
    assert request.deadline - request.arrived == pytest.approx(seconds)


def test_equal_prompts_of_different_tenants_or_salts_share_no_prefix(guarded: Served) -> None:
    def cached(name: str, **more: Any) -> int:
        prompt = list(range(100, 164))
        answer = post(guarded, "/v1/completions", BEARER[name], prompt=prompt, **more)
        tokens: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return tokens

    assert cached("a") == 0
    assert cached("a") > 0, "a tenant's own prefix is found"
    assert cached("b") == 0
    assert cached("b", cache_salt="s") == 0
    assert cached("b", cache_salt="s") > 0


def test_a_key_authenticates_and_limits_the_answer(guarded: Served) -> None:
    prompt = {"model": "tiny", "prompt": "The river"}
    with openai.OpenAI(
        base_url=f"{guarded.url}/v1", api_key="secret-of-a", max_retries=0
    ) as client:
        answer = client.completions.create(**prompt, extra_body={"ignore_eos": True})  # type: ignore[call-overload]
        assert answer.usage.completion_tokens == 4
        with pytest.raises(openai.BadRequestError, match="with this API key"):
            client.completions.create(**prompt, max_tokens=5)  # type: ignore[call-overload]


def test_without_a_key_only_probes_are_answered(guarded: Served) -> None:
    counters = guarded.pod.counters
    before, rejected = guarded.ask(
        lambda: (counters.settled(), counters.rejected["Unauthenticated"])
    )
    with httpx2.Client(base_url=guarded.url) as http:
        for path in ("/v1/completions", "/v2/models/tiny/generate", "/tokenize"):
            answer = http.post(path, json={})
            assert answer.status_code == 401
            error = answer.json()["error"]
            assert "API key" in (error if path.startswith("/v2/") else error["message"])
        assert http.get("/health").status_code == 200
        assert http.get("/v1/models").status_code == 401, "not counted: only POSTs are requests"
    assert counters.rejected["Unauthenticated"] == rejected + 3
    guarded.until(lambda: counters.settled() == before + 3)


@pytest.mark.parametrize(
    "header", [(b"Authorization", b"Bearer se\xe9cret"), (b"X-Api-Key", b"\xff\xfe")]
)
def test_a_key_that_is_not_text_is_unknown(guarded: Served, header: tuple[bytes, bytes]) -> None:
    before = guarded.pod.counters.rejected["Unauthenticated"]
    answer = httpx2.post(guarded.url + "/v1/completions", json=SHORT, headers=[header])
    assert answer.status_code == 401
    assert guarded.pod.counters.rejected["Unauthenticated"] == before + 1
