"""The unmodified `openai` client: sync, async, streaming."""

import json
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionToolParam
from pydantic import BaseModel, ConfigDict

from tests.unit.runtime.protocols.openai.served import POSITIONS, Served

HELLO = [{"role": "user", "content": "What is a pool?"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"town": {"enum": ["Oslo", "Bern"]}, "days": {"type": "integer"}},
            "required": ["town", "days"],
            "additionalProperties": False,
        },
    },
}


def chat(client: openai.OpenAI, **more: object) -> openai.types.chat.ChatCompletion:
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 12, "seed": 5, **more}
    return client.chat.completions.create(**body)  # type: ignore[call-overload, no-any-return]


def streamed(client: openai.OpenAI, **more: object) -> list[ChatCompletionChunk]:
    return list(chat(client, stream=True, **more))  # type: ignore[arg-type]


def text_of(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    return "".join(
        choice.delta.content or ""
        for chunk in chunks
        for choice in chunk.choices
        if choice.index == index
    )


def test_models_have_the_maximum_length_of_a_sequence(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.max_model_len) == ("tiny", POSITIONS)  # type: ignore[attr-defined]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError) as rejected:
        client.models.retrieve("other")
    assert rejected.value.param == "model"


def test_a_chat_is_answered_with_its_usage(client: openai.OpenAI) -> None:
    answer = chat(client)
    [choice] = answer.choices
    assert choice.finish_reason == "length"
    assert choice.message.content
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (
        12,
        answer.usage.prompt_tokens + 12,
    )


def test_a_stream_has_the_same_text_and_ends_with_the_usage(client: openai.OpenAI) -> None:
    whole = chat(client)
    chunks = streamed(client, stream_options={"include_usage": True})
    assert text_of(chunks) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 12
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_the_async_client_streams_too(served: Served) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{served.url}/v1", api_key="none", max_retries=0
    ) as client:
        body = {"model": "tiny", "messages": HELLO, "max_tokens": 6, "seed": 1}
        whole = await client.chat.completions.create(**body)  # type: ignore[call-overload]
        stream = await client.chat.completions.create(**body, stream=True)  # type: ignore[call-overload]
        text = "".join([event.choices[0].delta.content or "" async for event in stream])
    assert text == whole.choices[0].message.content


def test_equal_seeds_give_equal_answers_and_other_seeds_others(client: openai.OpenAI) -> None:
    first, second, other = (
        chat(client, seed=seed).choices[0].message.content for seed in (7, 7, 8)
    )
    assert first == second
    assert first != other


def test_n_choices_differ_and_are_streamed_by_index(client: openai.OpenAI) -> None:
    answer = chat(client, n=3)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    chunks = streamed(client, n=3)
    assert [text_of(chunks, index) for index in range(3)] == texts


def test_a_stop_string_cuts_the_text_and_is_named(client: openai.OpenAI) -> None:
    text = chat(client, temperature=0).choices[0].message.content or ""
    stop = text[3:6]
    answer = chat(client, temperature=0, stop=[stop, "never"])
    [choice] = answer.choices
    assert choice.message.content == text[: text.index(stop)]
    assert (choice.finish_reason, choice.stop_reason) == ("stop", stop)  # type: ignore[attr-defined]
    assert answer.usage is not None
    assert answer.usage.completion_tokens < 12
    assert text_of(streamed(client, temperature=0, stop=stop)) == choice.message.content


def test_log_probabilities_have_bytes_and_alternatives(client: openai.OpenAI) -> None:
    [choice] = chat(client, logprobs=True, top_logprobs=3, temperature=0).choices
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert len(choice.logprobs.content) == 12
    for entry in choice.logprobs.content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == max(other.logprob for other in entry.top_logprobs)
    spelt = b"".join(bytes(entry.bytes or []) for entry in choice.logprobs.content)
    assert spelt.decode("utf-8", "replace") == choice.message.content
    chunks = streamed(client, logprobs=True, temperature=0)
    entries = [chunk.choices[0].logprobs for chunk in chunks]
    assert sum(len(chunk.content or []) for chunk in entries if chunk is not None) == 12


def test_an_answer_matches_its_json_schema(client: openai.OpenAI) -> None:
    schema = WEATHER["function"]["parameters"]
    shape = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
    [choice] = chat(client, response_format=shape, max_tokens=120).choices
    assert choice.finish_reason == "stop"
    value = json.loads(choice.message.content or "")
    assert value["town"] in ("Oslo", "Bern")
    assert isinstance(value["days"], int)


def test_an_answer_matches_its_regular_expression(client: openai.OpenAI) -> None:
    shape = {"structured_outputs": {"regex": "[0-9]{4}-[0-9]{2}"}}
    [choice] = chat(client, extra_body=shape).choices
    text = choice.message.content or ""
    assert (len(text), text[4], choice.finish_reason) == (7, "-", "stop")


def test_a_required_tool_is_called_whole_and_streamed(client: openai.OpenAI) -> None:
    more = {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 200}
    [choice] = chat(client, parallel_tool_calls=False, **more).choices
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["town"] in ("Oslo", "Bern")
    chunks = streamed(client, parallel_tool_calls=False, **more)
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or []]
    assert [part.function.name for part in parts if part.id and part.function] == ["weather"]
    arguments = "".join(part.function.arguments or "" for part in parts if part.function)
    assert arguments == call.function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")  # or any other member may follow, of any length


class Harbour(Closed):
    town: Literal["Oslo", "Bergen"]


class Station(Closed):
    town: Literal["Bern", "Basel"]
    open: bool


class Voyage(Closed):
    place: Harbour
    back: Harbour | None


class Ride(Closed):
    place: Station


def tool_of(name: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return a tool whose schema defines each place as a Place."""
    schema = json.dumps(model.model_json_schema()).replace("Harbour", "Place")
    parameters = json.loads(schema.replace("Station", "Place"))
    assert list(parameters["$defs"]) == ["Place"]
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_each_required_tool_has_its_own_definitions(client: openai.OpenAI) -> None:
    models: dict[str, type[BaseModel]] = {"voyage": Voyage, "ride": Ride}
    tools = [tool_of(*entry) for entry in models.items()]
    more = {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}
    called = set()
    for seed in range(8):
        [choice] = chat(client, max_tokens=150, seed=seed, **more).choices
        [call] = choice.message.tool_calls or []
        assert call.type == "function"
        models[call.function.name].model_validate_json(call.function.arguments)
        called.add(call.function.name)
    assert called == models.keys()


def test_a_required_tool_may_refer_to_the_id_of_its_schema(
    client: openai.OpenAI,
) -> None:
    tool = tool_of("ride", Ride)
    tool["function"]["parameters"]["$id"] = "https://example.com/ride"
    [choice] = chat(client, tools=[tool], tool_choice="required", max_tokens=150).choices
    [call, *_] = choice.message.tool_calls or []
    assert call.type == "function"
    Ride.model_validate_json(call.function.arguments)


def test_a_named_tool_gets_the_whole_answer_as_its_arguments(client: openai.OpenAI) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    [choice] = chat(client, tools=[WEATHER], tool_choice=named, max_tokens=200).choices
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments).keys() == {"town", "days"}
    assert choice.message.content is None


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "gate"}}])
def test_arguments_are_an_object_even_if_the_schema_has_no_type(
    client: openai.OpenAI, choice: object
) -> None:
    parameters = {
        "properties": {"open": {"type": "boolean"}},
        "required": ["open"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "gate", "parameters": parameters}}
    more = {"tools": [tool], "tool_choice": choice, "parallel_tool_calls": False}
    [answer] = chat(client, max_tokens=150, **more).choices
    [call] = answer.message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments)["open"] in (True, False)


def test_completions_take_several_prompts_as_text_or_tokens(client: openai.OpenAI) -> None:
    texts = ["The river", "The gate"]
    answer = client.completions.create(model="tiny", prompt=texts, max_tokens=4, seed=2, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    ids = [client.post("/../tokenize", body={"prompt": text}, cast_to=object) for text in texts]
    tokens = [answer["tokens"] for answer in ids]  # type: ignore[index]
    again = client.completions.create(model="tiny", prompt=tokens, max_tokens=4, seed=2, n=2)
    assert [choice.text for choice in again.choices] == [choice.text for choice in answer.choices]


def test_equal_prompts_get_different_answers_without_a_seed(
    client: openai.OpenAI,
) -> None:
    body = {"model": "tiny", "prompt": ["The river"] * 3, "max_tokens": 16}
    own, seeded = (
        client.completions.create(**body, **more)  # type: ignore[call-overload]
        for more in ({}, {"seed": 5})
    )
    assert len({choice.text for choice in own.choices}) == 3
    assert len({choice.text for choice in seeded.choices}) == 1


def test_an_echo_begins_with_the_prompt(client: openai.OpenAI) -> None:
    body = {"model": "tiny", "prompt": "The river", "max_tokens": 3, "seed": 2}
    plain, echoed = (client.completions.create(**body, echo=echo) for echo in (False, True))  # type: ignore[call-overload]
    assert echoed.choices[0].text == "The river" + plain.choices[0].text
    stream = client.completions.create(**body, echo=True, stream=True)  # type: ignore[call-overload]
    assert "".join(event.choices[0].text for event in stream) == echoed.choices[0].text


def test_completion_log_probabilities_are_parallel_to_the_text(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="tiny", prompt="The river", max_tokens=5, logprobs=2, temperature=0
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert (
        len(logprobs.tokens or [])
        == len(logprobs.token_logprobs or [])
        == len(logprobs.text_offset or [])
    )
    assert "".join(logprobs.tokens or []) == answer.choices[0].text
