"""Log-probabilities of prompts: OpenAI's `echo` with `logprobs`, and vLLM's `prompt_logprobs`."""

import math
from typing import Any

import openai
import pytest

from tests.unit.runtime.protocols.openai.served import Served

TEXT = "The river"
GIVEN: dict[str, Any] = {"model": "tiny", "prompt": TEXT, "temperature": 0, "max_tokens": 4}


def prompt_ids(served: Served) -> list[int]:
    assert served.pod.engine.serving is not None
    return served.pod.engine.serving.tokenizer.encode(TEXT)


def test_an_echo_with_log_probabilities_begins_with_the_prompts_own(
    client: openai.OpenAI, served: Served
) -> None:
    plain = client.completions.create(**GIVEN, logprobs=2)
    echoed = client.completions.create(**GIVEN, logprobs=2, echo=True)
    logprobs, unechoed = echoed.choices[0].logprobs, plain.choices[0].logprobs
    assert logprobs is not None
    assert unechoed is not None
    count = len(prompt_ids(served))
    assert logprobs.token_logprobs is not None
    assert logprobs.tokens is not None
    assert "".join(logprobs.tokens) == echoed.choices[0].text
    assert logprobs.token_logprobs[0] is None
    assert all(value < 0 for value in logprobs.token_logprobs[1:])
    assert logprobs.token_logprobs[count:] == pytest.approx(unechoed.token_logprobs, abs=1e-4)
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:n])) for n in range(count + 4)]
    assert logprobs.top_logprobs is not None
    assert logprobs.top_logprobs[0] is None
    assert all(len(alternatives) in (2, 3) for alternatives in logprobs.top_logprobs[1:count])
    assert [len(alternatives) for alternatives in logprobs.top_logprobs[count:]] == [2] * 4


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("most", [0, 1])
def test_each_token_is_among_the_top_tokens_of_its_position(
    client: openai.OpenAI, most: int, echo: bool
) -> None:
    body = {**GIVEN, "temperature": 1, "seed": 3, "max_tokens": 8, "logprobs": most, "echo": echo}
    logprobs = client.completions.create(**body).choices[0].logprobs
    assert logprobs is not None
    entries = zip(
        logprobs.tokens or (),
        logprobs.token_logprobs or (),
        logprobs.top_logprobs or (),
        strict=True,
    )
    chosen_entries = [entry for entry in entries if entry[1] is not None]
    assert len(chosen_entries) >= 8
    for token, logprob, top in chosen_entries:
        assert top[token] == logprob
        assert most <= len(top) <= most + 1


def test_a_stream_echoes_the_same(client: openai.OpenAI) -> None:
    whole = client.completions.create(**GIVEN, logprobs=1, echo=True, n=2, seed=1)
    parts = list(
        client.completions.create(**GIVEN, logprobs=1, echo=True, n=2, seed=1, stream=True)
    )
    for choice in whole.choices:
        mine = [c for chunk in parts for c in chunk.choices if c.index == choice.index]
        parts_logprobs = [c.logprobs for c in mine if c.logprobs is not None]
        assert choice.logprobs is not None
        assert [t for part in parts_logprobs for t in part.tokens or ()] == choice.logprobs.tokens
        offsets = [t for part in parts_logprobs for t in part.text_offset or ()]
        assert offsets == choice.logprobs.text_offset


def test_only_the_prompt_is_returned_without_requested_tokens(
    client: openai.OpenAI, served: Served
) -> None:
    body = {**GIVEN, "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = client.completions.create(**body)
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == (TEXT, "length")
    assert choice.logprobs is not None
    assert len(choice.logprobs.tokens or ()) == len(prompt_ids(served))
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0
    stream = client.completions.create(**body, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == TEXT


def test_each_token_of_a_prompt_has_its_rank(client: openai.OpenAI, served: Served) -> None:
    answer: Any = client.completions.create(**GIVEN, extra_body={"prompt_logprobs": 3})
    first, *others = answer.choices[0].prompt_logprobs
    assert first is None
    for token, alternatives in zip(prompt_ids(served)[1:], others, strict=True):
        assert str(token) in alternatives
        assert len(alternatives) in (3, 4)
        likely = sorted(
            (entry for entry in alternatives.values()), key=lambda entry: -entry["logprob"]
        )
        assert [entry["rank"] for entry in likely[:3]] == [1, 2, 3]
        assert sum(math.exp(entry["logprob"]) for entry in alternatives.values()) <= 1.0
    assert answer.choices[0].logprobs is None


def test_a_chats_prompt_is_the_template_around_it(client: openai.OpenAI) -> None:
    answer: Any = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": TEXT}],
        max_tokens=2,
        extra_body={"prompt_logprobs": 0, "return_token_ids": True},
    )
    assert len(answer.prompt_logprobs) == len(answer.prompt_token_ids)
    assert [next(iter(entry)) for entry in answer.prompt_logprobs[1:]] == [
        str(token) for token in answer.prompt_token_ids[1:]
    ]


def test_a_cached_prompt_has_the_same_log_probabilities(client: openai.OpenAI) -> None:
    body = {**GIVEN, "prompt": "The gate meters water from a pool. " * 8, "logprobs": 0}
    answers = [client.completions.create(**body, echo=True) for _ in range(2)]
    first, again = (answer.choices[0].logprobs for answer in answers)
    assert first == again


def test_a_long_prompt_has_the_same_log_probabilities_in_a_stream(client: openai.OpenAI) -> None:
    body: dict[str, Any] = {**GIVEN, "prompt": [5] * 900, "max_tokens": 1, "echo": True}
    whole = client.completions.create(**body, logprobs=20).choices[0].logprobs
    first, *_ = client.completions.create(**body, logprobs=20, stream=True)
    streamed = first.choices[0].logprobs
    assert whole is not None
    assert streamed is not None
    assert len(streamed.top_logprobs or ()) == 901
    assert streamed.top_logprobs == whole.top_logprobs


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"prompt_logprobs": 20}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 20}, "echo"),
        ({"echo": True, "logprobs": 0, "n": 11}, "echo"),
        ({"return_token_ids": True, "n": 11}, "return_token_ids"),
    ],
)
def test_too_many_prompt_values_are_a_400(
    client: openai.OpenAI, more: dict[str, Any], named: str
) -> None:
    body = {"prompt": [[5] * 900] * 128, "max_tokens": 1, **more}
    with pytest.raises(
        openai.BadRequestError, match="but at most 1048576 are returned"
    ) as rejected:
        client.completions.create(model="tiny", extra_body=body, prompt="")
    assert rejected.value.param == named
