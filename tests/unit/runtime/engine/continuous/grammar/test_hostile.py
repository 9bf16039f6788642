"""A hostile grammar fails its own request with a 400 that names the field, and other streams continue."""

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.unit.runtime.engine.continuous.grammar.hostile import (
    LETTERS,
    OPTIONS,
    RULES,
    SCHEMA,
    body_with,
    chained_schema,
    repeated,
)
from tests.unit.runtime.engine.continuous.grammar.innocent import Innocent
from tests.unit.runtime.protocols.openai.served import Served

PLAIN = "/v1/completions"
GAP_SECONDS = 4.0
"""Longest gap of a stream next to hostile grammars, on a shared machine."""
TOO_BUSY = "because this pod is busy: try again"
"""In the 503 for a grammar that got too little processor time to reach its limit."""


def rejected(http: httpx2.Client, body: dict[str, Any]) -> dict[str, Any]:
    reply = http.post(PLAIN, json=body)
    assert reply.status_code == 400, reply.text
    error: dict[str, Any] = reply.json()["error"]
    assert "cannot be enforced" in error["message"]
    return error


@pytest.mark.parametrize(
    ("body", "field", "limit"),
    [
        pytest.param(SCHEMA, "response_format", "8 MiB of stack", id="1,101 references"),
        pytest.param(RULES, "guided_grammar", "8 MiB of stack", id="3,000 rules"),
        pytest.param(OPTIONS, "structured_outputs", "takes more than", id="30,000 options"),
        pytest.param(
            LETTERS, "guided_regex", "its first token takes more than", id="a slow first mask"
        ),
    ],
)
def test_a_grammar_beyond_a_limit_is_a_400_that_names_field_and_limit(
    http: httpx2.Client, body: dict[str, Any], field: str, limit: str
) -> None:
    error = rejected(http, body)
    assert error["param"] == field
    assert limit in error["message"]
    assert http.post(PLAIN, json=body_with(guided_regex="[0-9]{4}")).status_code == 200


def test_a_grammar_that_is_too_deep_or_too_long_is_rejected_before_compilation(
    http: httpx2.Client, pod: Served
) -> None:
    number = pod.pod.engine._grammars._last_number
    deep = '{"not":' * 200 + "{}" + "}" * 200
    assert "201 levels deep" in rejected(http, body_with(guided_json=deep))["message"]
    assert "80000 characters" in rejected(http, body_with(guided_regex="a" * 80_000))["message"]
    assert pod.pod.engine._grammars._last_number == number


def test_an_equal_grammar_is_compiled_once(http: httpx2.Client, pod: Served) -> None:
    number = pod.pod.engine._grammars._last_number
    body = body_with(guided_regex="once (and|or) again", n=3)
    texts = {http.post(PLAIN, json=body).text.split('"choices"')[1] for _ in range(3)}
    assert len(texts) == 1
    assert pod.pod.engine._grammars._last_number == number + 1


def test_a_stream_continues_next_to_hostile_grammars(http: httpx2.Client, pod: Served) -> None:
    innocent = Innocent(pod.url)
    distinct = [body_with(guided_regex=repeated(r"\d", 9999 - n)) for n in range(4)]
    slow = [body_with(guided_regex=repeated("d", 9998 - n)) for n in range(3)]
    bodies = [SCHEMA, RULES, OPTIONS, *slow, *distinct]
    with innocent.streaming(), ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda body: http.post(PLAIN, json=body), bodies))
    print(f"{innocent.tokens} tokens, longest gap {innocent.longest_seconds:.3f} s")
    for hostile in answers[:6]:
        assert hostile.status_code == 400 or TOO_BUSY in hostile.text, hostile.text
    for answer in answers:
        assert answer.status_code in (200, 400) or TOO_BUSY in answer.text, answer.text
    assert innocent.longest_seconds < GAP_SECONDS


def test_the_answer_ends_where_the_grammar_is_complete_whatever_min_tokens_says(
    http: httpx2.Client,
) -> None:
    for body in (
        body_with(guided_regex="[0-9]{2}", min_tokens=8),
        body_with(guided_choice=["yes"], min_tokens=8, stop_token_ids=[70]),
        body_with(guided_choice=["yes"], ignore_eos=True),
    ):
        reply = http.post(PLAIN, json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json()["choices"][0]["finish_reason"] == "stop"


def test_min_tokens_holds_where_the_grammar_allows_more(http: httpx2.Client) -> None:
    body = body_with(guided_regex="[0-9]{1,99}", min_tokens=6, logit_bias={"0": 100})
    assert http.post(PLAIN, json=body).json()["usage"]["completion_tokens"] >= 6


def test_any_character_and_any_value_may_be_required(http: httpx2.Client) -> None:
    reply = http.post(PLAIN, json=body_with(guided_choice=["a\x7f\x00\\"], max_tokens=16))
    assert reply.json()["choices"][0]["text"] == "a\x7f\x00\\"
    anything = {"type": "json_schema", "json_schema": {"schema": True}}
    assert http.post(PLAIN, json=body_with(response_format=anything)).status_code == 200


@pytest.mark.parametrize("links", [1, 20])
def test_a_chain_that_fits_is_enforced(http: httpx2.Client, links: int) -> None:
    shape = {"type": "json_schema", "json_schema": {"schema": chained_schema(links)}}
    reply = http.post(PLAIN, json=body_with(response_format=shape))
    assert reply.json()["choices"][0]["text"].strip().startswith('"')


DIGITS = body_with(guided_regex="[0-9]{100}", max_tokens=200, temperature=1, seed=7)


def events(
    http: httpx2.Client, body: dict[str, Any], after: int, then: Callable[[], object]
) -> list[str]:
    """Return the events of a stream, each a JSON text; call `then` after so many of them."""
    messages: list[str] = []
    with http.stream("POST", PLAIN, json={**body, "stream": True}) as reply:
        assert reply.status_code == 200, reply.read()
        for line in reply.iter_lines():
            if line.startswith("data: "):
                messages.append(line.removeprefix("data: "))
                if len(messages) == after:
                    then()
    return messages


def text_of(said: list[str]) -> str:
    return "".join(
        json.loads(message)["choices"][0]["text"] for message in said if message != "[DONE]"
    )


def test_a_late_mask_delays_no_other_stream_and_loses_no_token(
    http: httpx2.Client, pod: Served
) -> None:
    expected = http.post(PLAIN, json=DIGITS).json()["choices"][0]["text"]
    innocent = Innocent(pod.url)

    def stop_and_go() -> None:
        (worker,) = workers(pod)
        os.kill(worker, signal.SIGSTOP)
        try:
            innocent.wait_for(100)
        finally:
            os.kill(worker, signal.SIGCONT)

    with innocent.streaming():
        said = events(http, DIGITS, 9, stop_and_go)
    print(f"{innocent.tokens} tokens, longest gap {innocent.longest_seconds:.3f} s")
    assert text_of(said) == expected
    assert len(expected) == 100
    assert innocent.longest_seconds < GAP_SECONDS


def test_a_process_that_ends_in_the_middle_ends_its_own_stream_with_an_error(
    http: httpx2.Client, pod: Served
) -> None:
    innocent = Innocent(pod.url)
    with innocent.streaming():
        *said, error, done = events(http, DIGITS, 9, lambda: end_workers(pod))
    assert len(said) >= 9
    event = json.loads(error)
    assert event["error"]["param"] == "guided_regex"
    assert "1 s of CPU time" in event["error"]["message"]
    assert event["error"]["type"] == "invalid_request_error"
    assert done == "[DONE]"


def test_a_process_that_ends_before_the_first_token_is_a_400(
    http: httpx2.Client, pod: Served
) -> None:
    body = body_with(guided_regex="[0-9]{4}x")
    with pod.held_still(), ThreadPoolExecutor(1) as client:
        answer = client.submit(http.post, PLAIN, json=body)
        pod.until(lambda: pod.step.waiting_at_gate)
        end_workers(pod)
        pod.until(
            lambda: not any(worker.users for worker in pod.pod.engine._grammars._numbers.values())
        )
        pod.step.gate.set()
        assert answer.result().status_code == 400
    assert answer.result().json()["error"]["param"] == "guided_regex"
    assert http.post(PLAIN, json=body).status_code == 200


def workers(pod: Served) -> list[int]:
    """Return the processes of all grammars that are in use."""
    live_workers = pod.ask(lambda: list(pod.pod.engine._grammars._numbers.values()))
    return [
        worker.process for worker in live_workers if worker.process is not None and worker.users
    ]


def end_workers(pod: Served) -> None:
    for process in workers(pod):
        os.kill(process, signal.SIGSEGV)
