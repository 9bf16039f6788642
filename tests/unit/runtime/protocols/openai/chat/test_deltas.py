"""Reasoning and tool calls in the model's own format, as answers and streams of the API."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from penstock_runtime.protocols.openai.chat.tools import toolbox
from penstock_runtime.protocols.openai.wire.chat import ChatBody
from tests.support.demo_model.text import CHAT_TEMPLATE, SYSTEM
from tests.unit.runtime.protocols.openai.served import Served
from tests.unit.runtime.protocols.openai.test_client import HELLO, WEATHER

Say = Callable[[str], None]
ASSISTANT = "<|assistant|>{%- endif -%}"
THINKING = CHAT_TEMPLATE.replace(
    ASSISTANT, "<|assistant|>{% if enable_thinking %}<think>{% endif %}{%- endif -%}"
)
"""As in Qwen3: an answer may begin with reasoning, or the prompt opens it."""
THOUGHT, ANSWER = "a < b, so it is.", "It rains."
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo", "days": 2}}\n</tool_call>'
ARRAY = '[TOOL_CALLS] [{"name": "weather", "arguments": {"town": "Oslo", "days": 2}}]'
ARGUMENTS = {"town": "Oslo", "days": 2}


@pytest.fixture(scope="module")
def thinker(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    assert THINKING != CHAT_TEMPLATE
    folder = tmp_path_factory.mktemp("thinker") / "model"
    shutil.copytree(model_folder, folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": THINKING}))
    thinking = Served(folder)
    yield thinking
    thinking.close()


@pytest.fixture
def say(thinker: Served) -> Iterator[Say]:
    """Make the model generate a text."""
    assert thinker.pod.engine.serving is not None
    tokenizer = thinker.pod.engine.serving.tokenizer

    def put(text: str) -> None:
        thinker.step.script = tuple(tokenizer.backend.encode(text).ids)

    yield put
    thinker.step.script = ()


def ask(served: Served, **more: Any) -> Any:
    """Return an answer as the client parses it."""
    body = {"model": "tiny", "messages": HELLO, **more}
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(**body)
        return list(answer) if "stream" in more else answer


def whole(served: Served, **more: Any) -> dict[str, Any]:
    """Return the choice of a whole answer."""
    [choice] = ask(served, **more).model_dump()["choices"]
    first_choice: dict[str, Any] = choice
    return first_choice


def streamed(served: Served, **more: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the deltas of a stream, and its finish reason."""
    events = ask(served, stream=True, **more)
    choices = [event.model_dump(exclude_none=True)["choices"][0] for event in events]
    return [choice["delta"] for choice in choices], choices[-1]["finish_reason"]


def joined(deltas: list[dict[str, Any]], name: str) -> str:
    return "".join(delta.get(name, "") for delta in deltas)


@pytest.mark.parametrize("opened", [False, True], ids=["by-the-model", "by-the-prompt"])
def test_reasoning_is_separated_from_the_answer(thinker: Served, say: Say, opened: bool) -> None:
    more = {"extra_body": {"chat_template_kwargs": {"enable_thinking": opened}}}
    say(("" if opened else "<think>") + f"{THOUGHT}</think>\n\n{ANSWER}")
    message = whole(thinker, **more)["message"]
    names = ("reasoning", "reasoning_content", "content")
    assert [message[name] for name in names] == [THOUGHT, THOUGHT, ANSWER]
    deltas, reason = streamed(thinker, **more)
    assert [joined(deltas, name) for name in names] == [THOUGHT, THOUGHT, ANSWER]
    assert reason == "stop"
    kinds = [next(iter(delta)) for delta in deltas if delta and "role" not in delta]
    assert kinds == sorted(kinds, reverse=True), "all reasoning comes before the answer"


def test_reasoning_that_is_not_requested_is_left_out(thinker: Served, say: Say) -> None:
    say(f"<think>{THOUGHT}</think>{ANSWER}")
    more = {"extra_body": {"include_reasoning": False}}
    message = whole(thinker, **more)["message"]
    assert not message.keys() & {"reasoning", "reasoning_content"}
    assert message["content"] == ANSWER
    deltas, _ = streamed(thinker, **more)
    assert joined(deltas, "reasoning_content") + joined(deltas, "reasoning") == ""


def test_a_call_in_the_models_own_format_is_found_after_reasoning(
    thinker: Served, say: Say
) -> None:
    say(f"<think>{THOUGHT}</think>{ANSWER}{CALL}")
    more = {"tools": [WEATHER], "tool_choice": "auto"}
    choice = whole(thinker, **more)
    message = choice["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, ANSWER)
    [call] = message["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert choice["finish_reason"] == "tool_calls"
    deltas, reason = streamed(thinker, **more)
    parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert [part["function"]["name"] for part in parts if part.get("id")] == ["weather"]
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == ARGUMENTS
    assert (joined(deltas, "content"), reason) == (ANSWER, "tool_calls")


@pytest.mark.parametrize(
    "more", [{}, {"tools": [WEATHER], "tool_choice": "none"}], ids=["no-tools", "none"]
)
def test_a_call_without_tools_is_content(thinker: Served, say: Say, more: dict[str, Any]) -> None:
    say(CALL)
    choice = whole(thinker, **more)
    assert (choice["message"]["content"], choice["message"]["tool_calls"]) == (CALL, None)
    assert choice["finish_reason"] == "stop"


def test_a_client_that_allows_one_call_gets_one(thinker: Served, say: Say) -> None:
    say(f"{CALL}\n{CALL}")
    for parallel, calls in ((True, 2), (False, 1)):
        more = {"tools": [WEATHER], "parallel_tool_calls": parallel}
        choice = whole(thinker, **more)
        called = choice["message"]["tool_calls"]
        assert [json.loads(call["function"]["arguments"]) for call in called] == [ARGUMENTS] * calls
        assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
        deltas, reason = streamed(thinker, **more)
        parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
        assert ({part["index"] for part in parts}, reason) == (set(range(calls)), "tool_calls")


def test_a_model_with_tools_may_answer_without_them(thinker: Served, say: Say) -> None:
    say(ANSWER)
    choice = whole(thinker, tools=[WEATHER], tool_choice="auto")
    assert (choice["message"]["content"], choice["finish_reason"]) == (ANSWER, "stop")


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_have_ids_that_the_models_template_accepts(choice: str) -> None:
    body = ChatBody.model_validate({"messages": HELLO, "tools": [WEATHER], "tool_choice": choice})
    mistral = "{% if call.id|length != 9 %}{{ raise_exception('nine') }}{% endif %}[TOOL_CALLS]"
    assert re.fullmatch("[0-9a-f]{9}", toolbox(body, mistral).new_id())
    assert re.fullmatch("call_[0-9a-f]{24}", toolbox(body, CHAT_TEMPLATE).new_id())


@pytest.fixture(params=[("<tool_call>", CALL), ("[TOOL_CALLS]", ARRAY)], ids=["hermes", "mistral"])
def marked(
    request: pytest.FixtureRequest, model_folder: Path, tmp_path: Path
) -> Iterator[tuple[Served, str]]:
    """A model whose calls begin with a control token, and a call in its format."""
    marker, call = request.param
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    tokens, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    tokens.write_text(tokens.read_text().replace(SYSTEM, marker))
    template = CHAT_TEMPLATE.replace("<tool_call>", marker).replace(SYSTEM, "")
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": template}))
    served = Served(folder)
    assert served.pod.engine.serving is not None
    tokenizer = served.pod.engine.serving.tokenizer
    ids = tokenizer.backend.encode(ANSWER + call).ids
    assert tokenizer.backend.token_to_id(marker) in tokenizer.vocabulary.special.intersection(ids)
    served.step.script = tuple(ids)
    yield served, call.replace(marker, "")
    served.close()


def test_calls_are_found_after_a_marker_that_is_a_control_token(
    marked: tuple[Served, str],
) -> None:
    served, unmarked = marked
    choice = whole(served, tools=[WEATHER])
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert (choice["message"]["content"], choice["finish_reason"]) == (ANSWER, "tool_calls")
    deltas, reason = streamed(served, tools=[WEATHER])
    parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == ARGUMENTS
    assert (joined(deltas, "content"), reason) == (ANSWER, "tool_calls")
    assert whole(served)["message"]["content"] == ANSWER + unmarked, "calls are not parsed"
