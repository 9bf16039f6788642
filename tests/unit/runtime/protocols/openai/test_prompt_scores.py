"""What the model thought of a prompt: OpenAI's echoed log-probabilities, and vLLM's `prompt_logprobs`."""

import math
from typing import Any

import openai
import pytest

from tests.unit.runtime.protocols.openai.served import Served

TEXT = "The river"
GIVEN: dict[str, Any] = {"model": "tiny", "prompt": TEXT, "temperature": 0, "max_tokens": 4}


def prompt_ids(served: Served) -> list[int]:
    assert served.pod.serving is not None
    return served.pod.serving.tokenizer.encode(TEXT)


def test_an_echo_with_log_probabilities_begins_with_the_prompts_own(
    client: openai.OpenAI, served: Served
) -> None:
    plain = client.completions.create(**GIVEN, logprobs=2)
    echoed = client.completions.create(**GIVEN, logprobs=2, echo=True)
    told, held = echoed.choices[0].logprobs, plain.choices[0].logprobs
    assert told is not None
    assert held is not None
    count = len(prompt_ids(served))
    assert told.token_logprobs is not None
    assert told.tokens is not None
    assert "".join(told.tokens) == echoed.choices[0].text
    assert told.token_logprobs[0] is None
    assert all(one < 0 for one in told.token_logprobs[1:])
    assert told.token_logprobs[count:] == pytest.approx(held.token_logprobs, abs=1e-4)
    assert told.text_offset == [len("".join(told.tokens[:n])) for n in range(count + 4)]
    assert told.top_logprobs is not None
    assert told.top_logprobs[0] is None
    assert all(len(one) in (2, 3) for one in told.top_logprobs[1:count])
    assert [len(one) for one in told.top_logprobs[count:]] == [2] * 4


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("most", [0, 1])
def test_each_token_is_told_among_the_likeliest_in_its_place(
    client: openai.OpenAI, most: int, echo: bool
) -> None:
    asked = {**GIVEN, "temperature": 1, "seed": 3, "max_tokens": 8, "logprobs": most, "echo": echo}
    told = client.completions.create(**asked).choices[0].logprobs
    assert told is not None
    found = zip(told.tokens or (), told.token_logprobs or (), told.top_logprobs or (), strict=True)
    told_of = [one for one in found if one[1] is not None]
    assert len(told_of) >= 8
    for token, logprob, likeliest in told_of:
        assert likeliest[token] == logprob
        assert most <= len(likeliest) <= most + 1


def test_a_stream_echoes_the_same(client: openai.OpenAI) -> None:
    whole = client.completions.create(**GIVEN, logprobs=1, echo=True, n=2, seed=1)
    parts = list(
        client.completions.create(**GIVEN, logprobs=1, echo=True, n=2, seed=1, stream=True)
    )
    for choice in whole.choices:
        mine = [c for one in parts for c in one.choices if c.index == choice.index]
        told = [c.logprobs for c in mine if c.logprobs is not None]
        assert choice.logprobs is not None
        assert [t for one in told for t in one.tokens or ()] == choice.logprobs.tokens
        offsets = [t for one in told for t in one.text_offset or ()]
        assert offsets == choice.logprobs.text_offset


def test_nothing_but_the_prompt_is_told_where_no_token_is_asked_for(
    client: openai.OpenAI, served: Served
) -> None:
    asked = {**GIVEN, "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = client.completions.create(**asked)
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == (TEXT, "length")
    assert choice.logprobs is not None
    assert len(choice.logprobs.tokens or ()) == len(prompt_ids(served))
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0
    stream = client.completions.create(**asked, stream=True)
    assert "".join(one.choices[0].text for one in stream) == TEXT


def test_each_token_of_a_prompt_is_told_with_its_rank(
    client: openai.OpenAI, served: Served
) -> None:
    answer: Any = client.completions.create(**GIVEN, extra_body={"prompt_logprobs": 3})
    first, *others = answer.choices[0].prompt_logprobs
    assert first is None
    for token, told in zip(prompt_ids(served)[1:], others, strict=True):
        assert str(token) in told
        assert len(told) in (3, 4)
        likely = sorted((one for one in told.values()), key=lambda one: -one["logprob"])
        assert [one["rank"] for one in likely[:3]] == [1, 2, 3]
        assert sum(math.exp(one["logprob"]) for one in told.values()) <= 1.0
    assert answer.choices[0].logprobs is None


def test_a_chats_prompt_is_the_template_around_it(client: openai.OpenAI) -> None:
    answer: Any = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": TEXT}],
        max_tokens=2,
        extra_body={"prompt_logprobs": 0, "return_token_ids": True},
    )
    assert len(answer.prompt_logprobs) == len(answer.prompt_token_ids)
    assert [next(iter(one)) for one in answer.prompt_logprobs[1:]] == [
        str(token) for token in answer.prompt_token_ids[1:]
    ]


def test_a_prompt_that_is_cached_is_scored_all_the_same(client: openai.OpenAI) -> None:
    asked = {**GIVEN, "prompt": "The gate meters water from a pool. " * 8, "logprobs": 0}
    answers = [client.completions.create(**asked, echo=True) for _ in range(2)]
    first, again = (one.choices[0].logprobs for one in answers)
    assert first == again


def test_a_long_prompt_has_the_same_log_probabilities_in_a_stream(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {**GIVEN, "prompt": [5] * 900, "max_tokens": 1, "echo": True}
    whole = client.completions.create(**asked, logprobs=20).choices[0].logprobs
    first, *_ = client.completions.create(**asked, logprobs=20, stream=True)
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
def test_more_values_of_prompts_than_an_answer_may_have_are_a_400(
    client: openai.OpenAI, more: dict[str, Any], named: str
) -> None:
    asked = {"prompt": [[5] * 900] * 128, "max_tokens": 1, **more}
    with pytest.raises(openai.BadRequestError, match="but at most 1048576 are returned") as refused:
        client.completions.create(model="tiny", extra_body=asked, prompt="")
    assert refused.value.param == named
