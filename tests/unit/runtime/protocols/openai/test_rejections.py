"""Rejected bodies: OpenAI's error object under `error`, or a text in Triton's generate extension, with the field."""

import json
import re
import threading
from typing import Any

import httpx2
import pytest

from tests.unit.runtime.protocols.openai.served import Served

HELLO = [{"role": "user", "content": "Hello"}]
CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"
GENERATE, STREAMED = "/v2/models/tiny/generate", "/v2/models/tiny/generate_stream"


def asking(**parameters: Any) -> dict[str, Any]:
    """Return a body of Triton's generate extension."""
    return {"text_input": "a", "parameters": parameters}


def called(arguments: str) -> dict[str, Any]:
    """Return a chat in which a function was called."""
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "assistant", "tool_calls": [call]}]}


REJECTED: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("no-messages", CHAT, {"messages": []}, "messages", "at least 1"),
    ("missing-messages", CHAT, {}, "messages", "required"),
    ("hot", CHAT, {"messages": HELLO, "temperature": -1}, "temperature", "greater than or equal to 0"),
    ("wide", CHAT, {"messages": HELLO, "top_p": 1.1}, "top_p", "less than or equal to 1"),
    ("many", CHAT, {"messages": HELLO, "n": 129}, "n", "less than or equal to 128"),
    ("thin-penalty", PLAIN, {"prompt": "a", "repetition_penalty": 5e-38}, "repetition_penalty", "equal to 0.01"),
    ("no-tokens", CHAT, {"messages": HELLO, "max_completion_tokens": 0}, "max_completion_tokens", "1"),
    ("too-long", CHAT, {"messages": HELLO, "max_completion_tokens": 5000}, "max_completion_tokens", "1024"),
    ("too-long-a-prompt", PLAIN, {"prompt": [5] * 1024}, "prompt", "1024 tokens"),
    ("odd-id", PLAIN, {"prompt": [1024]}, "prompt", "0 to 1023"),
    ("odd-bias", PLAIN, {"prompt": "a", "logit_bias": {"5000": 1}}, "logit_bias", "token 5000"),
    ("many-biases", PLAIN, {"prompt": "a", "logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias", "at most 1024 tokens"),
    ("odd-stop-id", PLAIN, {"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids", "token -1"),
    ("long-stop", PLAIN, {"prompt": "a", "stop": ["b", "a" * 1025]}, "stop.1", "at most 1024 characters"),
    ("empty-stop", PLAIN, {"prompt": "a", "stop": [""]}, "stop", "empty stop string"),
    ("min-above-max", PLAIN, {"prompt": "a", "min_tokens": 17}, "min_tokens", "at most the 16"),
    ("other-model", PLAIN, {"prompt": "a", "model": "gpt"}, "model", "serves 'tiny'"),
    ("beams", PLAIN, {"prompt": "a", "use_beam_search": True}, "use_beam_search", "not supported"),
    ("suffix", PLAIN, {"prompt": "a", "suffix": "b"}, "suffix", "not supported"),
    ("nothing-at-all", PLAIN, {"prompt": "a", "max_tokens": 0}, "max_tokens", "0 with `echo`"),
    ("streamed-scores", PLAIN, {"prompt": "a", "stream": True, "prompt_logprobs": 1}, "prompt_logprobs", "`stream`"),
    ("functions", CHAT, {"messages": HELLO, "functions": [{}]}, "functions", "not supported"),
    ("top-alone", CHAT, {"messages": HELLO, "top_logprobs": 2}, "top_logprobs", "needs `logprobs`"),
    (
        "picture",
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages.0.content.0.type",
        "text only",
    ),
    (
        "bad-schema",
        CHAT,
        {"messages": HELLO, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "foo"}}}},
        "response_format",
        "cannot be enforced",
    ),
    (
        "no-schema",
        CHAT,
        {"messages": HELLO, "response_format": {"type": "json_schema"}},
        "response_format.json_schema.schema",
        "missing",
    ),
    (
        "no-answer",
        CHAT,
        {"messages": HELLO, "response_format": {"type": "json_schema", "json_schema": {"schema": False}}},
        "response_format.json_schema.schema",
        "is false, which no answer satisfies",
    ),
    ("bad-regex", PLAIN, {"prompt": "a", "guided_regex": "(("}, "guided_regex", "cannot be enforced"),
    (
        "two-shapes",
        PLAIN,
        {"prompt": "a", "guided_regex": "a", "response_format": {"type": "json_object"}},
        "guided_regex",
        "both set the format",
    ),
    ("no-shape", PLAIN, {"prompt": "a", "structured_outputs": {"structural_tag": "x"}}, "structured_outputs", "0 members"),
    ("unlisted-tool", CHAT, {"messages": HELLO, "tool_choice": "required"}, "tool_choice", "add `tools`"),
    ("deep-arguments", CHAT, called("[" * 5000), "messages.0.tool_calls.0.function.arguments", "not valid JSON"),
    ("half-a-pair", CHAT, called('{"a": "\\ud800"}'), "messages.0.tool_calls.0.function.arguments", "not valid JSON"),
    ("bad-timeout", PLAIN, {"prompt": "a", "timeout": 0}, "timeout", "greater than 0"),
    ("g-no-text", GENERATE, {"parameters": {}}, "text_input", "required"),
    ("g-hot-min-p", GENERATE, asking(min_p="hot"), "parameters.min_p", "got 'hot'"),
    ("g-prompt-too-long", GENERATE, {"text_input": "word " * 2000}, "text_input", "shorten it"),
    ("g-choices", GENERATE, asking(n=3), "parameters.n", "got 3"),
    ("g-best-of", GENERATE, asking(best_of=4), "parameters.best_of", "not supported"),
    ("g-logprobs", GENERATE, asking(logprobs=2), "parameters.logprobs", "not supported"),
    ("g-ids", GENERATE, asking(return_token_ids=True), "parameters.return_token_ids", "got True"),
    ("g-scores", GENERATE, asking(prompt_logprobs=1), "parameters.prompt_logprobs", "got 1"),
    ("g-empty-stop", GENERATE, asking(stop=""), "parameters.stop", "empty stop string"),
    ("g-min-above-max", GENERATE, asking(min_tokens=17), "parameters.min_tokens", "at most the 16"),
    ("g-odd-bias", GENERATE, asking(logit_bias={"5000": 1}), "parameters.logit_bias", "token 5000"),
    ("g-bad-regex", GENERATE, asking(guided_regex="(("), "parameters.guided_regex", "cannot be enforced"),
    ("g-bad-timeout", GENERATE, asking(timeout=-1), "parameters.timeout", "got -1"),
    ("g-streamed", STREAMED, asking(min_p="hot"), "parameters.min_p", "got 'hot'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "field", "expected"),
    [case[1:] for case in REJECTED],
    ids=[case[0] for case in REJECTED],
)
def test_an_invalid_body_is_rejected_by_field(
    http: httpx2.Client, path: str, body: dict[str, Any], field: str, expected: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == (404 if field == "model" else 400)
    answer_body = answer.json()
    assert answer_body["field"] == field
    if path in (GENERATE, STREAMED):
        assert expected in answer_body["error"], "a text, as Triton's"
        return
    assert answer_body["error"]["param"] == field
    assert expected in answer_body["error"]["message"]


def test_broken_json_is_rejected(http: httpx2.Client) -> None:
    answer = http.post(CHAT, content=b'{"messages": [')
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "body"


def test_unknown_fields_are_ignored(http: httpx2.Client) -> None:
    answer = http.post(PLAIN, json={"prompt": "a", "max_tokens": 1, "no_such_field": 3})
    assert answer.status_code == 200


def test_an_unsupported_field_without_effect_is_accepted(http: httpx2.Client) -> None:
    harmless = {"best_of": 1, "suffix": None, "use_beam_search": False}
    answer = http.post(PLAIN, json={"prompt": "a", "max_tokens": 1, **harmless})
    assert answer.status_code == 200


def test_null_is_the_default_where_openai_or_vllm_allows_it(http: httpx2.Client) -> None:
    options = {"include_usage": None, "continuous_usage_stats": None}
    nulls = {"stream": None, "echo": None, "stream_options": options, "stop": None}
    nulls |= {"return_token_ids": None}
    answer = http.post(PLAIN, json={"prompt": "a", "max_tokens": 1, "top_p": 0, **nulls})
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == "text_completion"


@pytest.mark.parametrize("stream", [False, True])
def test_a_nucleus_of_nothing_keeps_the_top_token(http: httpx2.Client, stream: bool) -> None:
    body = {"prompt": "The river", "max_tokens": 6, "stream": stream}
    greedy, narrow = (
        http.post(PLAIN, json={**body, **how}).text
        for how in ({"temperature": 0}, {"temperature": 1, "top_p": 0})
    )
    texts = [re.findall(r'"text": ?"([^"]*)"', answer) for answer in (greedy, narrow)]
    assert texts[0] == texts[1]


def test_a_request_id_comes_back_also_on_a_stream(http: httpx2.Client) -> None:
    body = {"prompt": "a", "max_tokens": 2, "stream": True}
    answer = http.post(PLAIN, json=body, headers={"X-Request-Id": "mine-1"})
    assert answer.headers["X-Request-Id"] == "mine-1"
    assert answer.text.endswith("data: [DONE]\n\n")


def test_token_ids_are_returned_on_request(http: httpx2.Client) -> None:
    body = {"prompt": "The river", "max_tokens": 4, "temperature": 0, "return_token_ids": True}
    [choice] = http.post(PLAIN, json=body).json()["choices"]
    assert len(choice["token_ids"]) == 4
    text = http.post("/detokenize", json={"tokens": choice["prompt_token_ids"]}).json()
    assert text == {"prompt": "The river"}
    events = http.post(PLAIN, json={**body, "stream": True}).text.split("\n\n")[:-2]
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert [token for event in choices for token in event["token_ids"]] == choice["token_ids"]
    assert choices[0]["prompt_token_ids"] == choice["prompt_token_ids"]


def test_tokenize_counts_a_chat_as_the_template_renders_it(http: httpx2.Client) -> None:
    tokenized = http.post("/tokenize", json={"messages": HELLO, "return_token_strs": True}).json()
    assert tokenized["token_strs"][0] == "<|user|>"
    assert tokenized["token_strs"][-1] == "<|assistant|>"
    answer = http.post(CHAT, json={"messages": HELLO, "max_tokens": 1}).json()
    assert answer["usage"]["prompt_tokens"] == tokenized["count"]


def test_tritons_generate_answers_whole_and_streamed(http: httpx2.Client) -> None:
    body = {"text_input": "The river", "parameters": {"max_tokens": 5, "temperature": 0}}
    whole = http.post("/v2/models/tiny/generate", json=body).json()
    assert whole["model_name"] == "tiny"
    events = http.post("/v2/models/tiny/generate_stream", json=body).text.strip().split("\n\n")
    pieces = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
    assert "".join(pieces) == whole["text_output"]
    assert http.post("/v2/models/other/generate", json=body).status_code == 404


def test_tritons_generate_accepts_the_options_of_completions(http: httpx2.Client) -> None:
    digits = {"structured_outputs": {"regex": "[0-9]{4}"}, "stream": False, "n": 1, "best_of": 1}
    answer = http.post(GENERATE, json=asking(**digits)).json()
    assert len(answer["text_output"]) == 4
    assert answer["text_output"].isdigit()
    logit_bias = {"0": 100}  # the end of the answer
    ended = http.post(GENERATE, json=asking(logit_bias=logit_bias, temperature=0)).json()
    assert ended["text_output"] == ""


def test_an_unknown_parameter_is_ignored_and_logged(
    http: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        answer = http.post(GENERATE, json=asking(max_tokens=1, prompt="b", no_such_parameter=3))
    assert answer.status_code == 200
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert "ignoring unknown field 'parameters.no_such_parameter'" in messages
    assert "ignoring unknown field 'parameters.prompt'" in messages


def test_min_tokens_and_ignore_eos_are_obeyed(http: httpx2.Client) -> None:
    biased = {"prompt": "a", "max_tokens": 9, "logit_bias": {"0": 100}, "temperature": 0}
    ended = http.post(PLAIN, json=biased).json()
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert ended["usage"]["completion_tokens"] == 1
    late = http.post(PLAIN, json={**biased, "min_tokens": 4}).json()
    assert late["usage"]["completion_tokens"] == 5
    never = http.post(PLAIN, json={**biased, "ignore_eos": True}).json()
    assert never["choices"][0]["finish_reason"] == "length"


def test_a_stop_id_is_reported_and_not_in_the_text(http: httpx2.Client) -> None:
    body = {"prompt": "a", "max_tokens": 9, "logit_bias": {"70": 100}, "temperature": 0}
    [choice] = http.post(PLAIN, json={**body, "stop_token_ids": [70]}).json()["choices"]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("", "stop", 70)


def test_probes_are_answered(http: httpx2.Client) -> None:
    assert http.get("/health").status_code == 200
    assert http.get("/version").json()["version"]
    assert http.get("/v2/models/tiny").json()["platform"] == "transformers"


@pytest.mark.parametrize("headers", [{}, {"X-Request-Timeout-Ms": str(2**53 - 1)}])
def test_a_deadline_beyond_all_clocks_leaves_the_engine_alive(
    served: Served, headers: dict[str, str]
) -> None:
    """A longer wait for the next message raises OverflowError in the engine."""
    body = asking(max_tokens=2, timeout=0 if headers else 2**63 - 1)
    with httpx2.Client(base_url=served.url, timeout=30) as http, served.held_still():
        sender = threading.Thread(
            target=lambda: http.post(GENERATE, json=body, headers=headers), daemon=True
        )
        sender.start()
        served.until(lambda: served.step.waiting_at_gate)
        served.step.gate.set()
        sender.join(20)
        for _ in range(3):
            assert http.post(PLAIN, json={"prompt": "a", "max_tokens": 1}).status_code == 200
    assert served.ask(lambda: served.pod.health.death) is None


LOOSE: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"messages": HELLO, "max_tokens": True}, "max_tokens"),
    (CHAT, {"messages": HELLO, "max_tokens": "4"}, "max_tokens"),
    (CHAT, {"messages": HELLO, "max_tokens": 4.0}, "max_tokens"),
    (CHAT, {"messages": HELLO, "temperature": "1"}, "temperature"),
    (CHAT, {"messages": HELLO, "temperature": True}, "temperature"),
    (CHAT, {"messages": HELLO, "stream": 0}, "stream"),
    (CHAT, {"messages": HELLO, "stream": "false"}, "stream"),
    (CHAT, {"messages": HELLO, "logprobs": 1}, "logprobs"),
    (PLAIN, {"prompt": "a", "n": "1"}, "n"),
    (PLAIN, {"prompt": [1.0]}, "prompt.0"),
    (PLAIN, {"prompt": [[5], [True]]}, "prompt.1.0"),
    (PLAIN, {"prompt": "a", "seed": 1.0}, "seed"),
    (PLAIN, {"prompt": "a", "stop_token_ids": ["5"]}, "stop_token_ids.0"),
    (PLAIN, {"prompt": "a", "logit_bias": {"5_0": 1}}, "logit_bias.5_0"),
    (PLAIN, {"prompt": "a", "logit_bias": {"5": "1"}}, "logit_bias.5"),
    (PLAIN, {"prompt": "a", "best_of": True}, "best_of"),
    (GENERATE, asking(n=True), "parameters.n"),
    (GENERATE, asking(n=1.0), "parameters.n"),
    (GENERATE, asking(timeout="5"), "parameters.timeout"),
    ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
    ("/detokenize", {"tokens": [True]}, "tokens.0"),
]


@pytest.mark.parametrize(("path", "body", "field"), LOOSE)
def test_a_value_of_another_type_is_rejected(
    http: httpx2.Client, path: str, body: dict[str, Any], field: str
) -> None:
    answer = http.post(path, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


def test_a_float_field_accepts_an_integer(http: httpx2.Client) -> None:
    whole = {"temperature": 1, "top_p": 1, "min_p": 0, "presence_penalty": 0, "timeout": 30}
    more = {"logit_bias": {"5": 1}, "length_penalty": 1, "repetition_penalty": 1}
    answer = http.post(PLAIN, json={"prompt": "a", "max_tokens": 1, **whole, **more})
    assert answer.status_code == 200, answer.text
