"""Processing of text in pieces gives the same result for any division into pieces."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from penstock_runtime.text.chat_template import ChatTemplate, TemplateRejected
from penstock_runtime.text.detokenizer import Detokenizer, detokenize
from penstock_runtime.text.reasoning import ReasoningSplitter
from penstock_runtime.text.tokenizer import InvalidTokenizer, load_tokenizer
from penstock_runtime.text.tool_calls import (
    BARE,
    HERMES,
    MISTRAL,
    Arguments,
    CallBegun,
    Content,
    ToolCallEvent,
    ToolCallFormat,
    ToolCallParser,
)
from penstock_runtime.text.vocabulary import read_vocabulary
from tests.support.demo_model.text import CHAT_TEMPLATE
from tests.support.demo_model.tokenizer import make_tokenizer, save_tokenizer
from tests.unit.runtime.text.pieces import pieces_of

BACKEND = make_tokenizer()
VOCABULARY = read_vocabulary(BACKEND)
QUICK = settings(max_examples=60)
IDS = st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=40)


@QUICK
@given(IDS)
def test_incremental_detokenization_equals_decoding_at_once(ids: list[int]) -> None:
    detokenizer = Detokenizer(VOCABULARY, skip_special=False)
    text_out = "".join(detokenizer.add((token,)) for token in ids) + detokenizer.finish()
    assert text_out == detokenize(VOCABULARY, ids, skip_special=False)
    assert text_out == BACKEND.decode(ids, skip_special_tokens=False)


@QUICK
@given(st.text())
def test_any_text_survives_encoding_and_decoding(text: str) -> None:
    assert detokenize(VOCABULARY, BACKEND.encode(text).ids, skip_special=False) == text


def test_no_incomplete_character_is_emitted() -> None:
    detokenizer = Detokenizer(VOCABULARY)
    pieces = [detokenizer.add((token,)) for token in BACKEND.encode("日本🎉").ids]
    assert "".join(pieces) == "日本🎉"
    assert "\ufffd" not in "".join(pieces)


def test_sentence_pieces_decode_spaces_and_bytes() -> None:
    backend = Backend(models.BPE({"▁a": 0, "<0xE2>": 1, "<0x9C>": 2, "<0x93>": 3, "b": 4}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    assert detokenize(read_vocabulary(backend), [4, 0, 1, 2, 3]) == "b a✓"


def test_sentence_pieces_without_bytes_decode_spaces() -> None:
    backend = Backend(models.BPE({"▁a": 0, "b": 1}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    ids = [1, 0, 1]
    assert detokenize(read_vocabulary(backend), ids) == backend.decode(ids) == "b ab"


def test_runs_of_spaces_that_were_added_to_sentence_pieces_are_spaces() -> None:
    backend = Backend(models.BPE({"def": 0, ":": 1, "<0x0A>": 2, "▁": 3}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    runs = ["▁▁", "▁▁▁▁"]
    backend.add_tokens([AddedToken(token, normalized=False) for token in runs])
    backend.add_special_tokens(["<end▁of▁turn>"])
    ids = [0, 3, 1, 2, 5, 0, 4, 6]
    decoded = detokenize(read_vocabulary(backend), ids, skip_special=False)
    assert decoded == "def :\n    def  <end of turn>"
    assert decoded == backend.decode(ids, skip_special_tokens=False)


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "}]\\"{", "b": [1, {}]}}\n</tool_call>'
ARGUMENTS = '{"a": "}]\\"{", "b": [1, {}]}'
BROKEN = '<tool_call>{"name": "a\\xb", "arguments": {}}</tool_call>'
HALF = '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'


def events_of(call_format: ToolCallFormat, text: str, cuts: list[int]) -> list[ToolCallEvent]:
    """Parse `text` in pieces, and join events of the same part."""
    parser = ToolCallParser(call_format)
    events = [
        event for piece in pieces_of(text, cuts) for event in parser.add(piece)
    ] + parser.finish()
    joined: list[ToolCallEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, Content) and isinstance(last, Content):
            joined[-1] = Content(last.text + event.text)
        elif isinstance(event, Arguments) and isinstance(last, Arguments):
            joined[-1] = Arguments(last.text + event.text)
        else:
            joined.append(event)
    return joined


@QUICK
@given(st.lists(st.integers(0, 400), max_size=12))
def test_calls_are_found_in_any_pieces(cuts: list[int]) -> None:
    events = events_of(HERMES, f"Well <b>: {CALL}\n{CALL} done", cuts)
    calls: list[ToolCallEvent] = [CallBegun("f"), Arguments(ARGUMENTS)]
    assert events == [Content("Well <b>: "), *calls, *calls, Content(" done")]
    unclosed = CALL.removesuffix("\n</tool_call>")
    events = events_of(HERMES, f"{unclosed}\n{CALL}\n{unclosed} done", cuts)
    assert events == [*calls, *calls, *calls, Content(" done")]
    first = f'{{"name":"f","arguments":{ARGUMENTS}, "id": "a]}}1"}}'
    array = f'[{first}, {{"name": "g", "parameters": {{}}}}]'
    listed: list[ToolCallEvent] = [*calls, CallBegun("g"), Arguments("{}")]
    assert events_of(BARE, array, cuts) == listed
    assert events_of(MISTRAL, f"Hm [TOOL_CALLS] {array}", cuts) == [Content("Hm "), *listed]
    quoted = f'<tool_call>{{"name": "f", "arguments": {json.dumps(ARGUMENTS)}}}</tool_call>!'
    assert events_of(HERMES, quoted, cuts) == [*calls, Content("!")]
    flat = f"Hm [TOOL_CALLS]f[ARGS]{ARGUMENTS}[TOOL_CALLS]g[CALL_ID]a1[ARGS] {{}} so"
    assert events_of(MISTRAL, flat, cuts) == [Content("Hm "), *listed, Content(" so")]


FRAGMENTS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[", "]", "{", "}", ",", " ", "\n", '"', "\\", "f[ARGS]", "x",
             '{"name": "f", "arguments": ', '{"arguments": {}, "name": "g"}', "{}", '"{}"', ', "id": "1"}')  # fmt: skip


@settings(QUICK, max_examples=300)
@given(
    st.sampled_from([HERMES, MISTRAL, BARE]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_events_are_independent_of_the_pieces(
    call_format: ToolCallFormat, text: str, cuts: list[int]
) -> None:
    assert events_of(call_format, text, cuts) == events_of(call_format, text, [])


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ('<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', [CallBegun("f"), Arguments('{"a": 1}')]),
        ("<tool_call>no json</tool_call> x", [Content("<tool_call>no json</tool_call> x")]),
        ("<tool_call>unfinish", [Content("<tool_call>unfinish")]),
        ("a <tool", [Content("a <tool")]),
        ('<tool_call>{"arguments": {}, "name": "f"}', [CallBegun("f"), Arguments("{}")]),
        (BROKEN, [Content(BROKEN)]),
        (HALF, [Content(HALF)]),
    ],
)  # fmt: skip
def test_text_that_is_no_call_is_content_and_complete(
    text: str, events: list[ToolCallEvent]
) -> None:
    assert events_of(HERMES, text, []) == events


@QUICK
@given(st.lists(st.integers(0, 60), max_size=8), st.booleans())
def test_reasoning_is_separated_from_the_answer(cuts: list[int], begun: bool) -> None:
    splitter = ReasoningSplitter(begun=begun)
    text = ("" if begun else "<think>") + "so < it is</think>\n\nYes."
    thoughts = [splitter.add(piece) for piece in pieces_of(text, cuts)] + [splitter.finish()]
    assert "".join(thought.reasoning for thought in thoughts) == "so < it is"
    assert "".join(thought.content for thought in thoughts) == "Yes."


def test_an_answer_without_reasoning_is_all_content() -> None:
    splitter = ReasoningSplitter(begun=False)
    thoughts = [splitter.add("<thin"), splitter.add(" ice"), splitter.finish()]
    assert "".join(thought.content for thought in thoughts) == "<thin ice"


@pytest.mark.parametrize("blanks", [4096, 4097, 9000])
@pytest.mark.parametrize("size", [1, 128, 10_000])
def test_leading_blanks_are_buffered_up_to_a_bound(blanks: int, size: int) -> None:
    text = " " * blanks + "<think>so</think>Yes."
    splitter = ReasoningSplitter(begun=False)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    thoughts = [splitter.add(piece) for piece in pieces] + [splitter.finish()]
    content = "".join(thought.content for thought in thoughts)
    assert content == ("Yes." if blanks <= 4096 else text)


def test_blanks_without_an_end_reach_the_client() -> None:
    splitter, parser = ReasoningSplitter(begun=False), ToolCallParser(HERMES)
    thoughts = [splitter.add(" " * 128) for _ in range(100)]
    assert sum(len(thought.content) for thought in thoughts) >= 12_800 - 4096
    parser.add(CALL)
    events = [event for _ in range(100) for event in parser.add(" " * 128)]
    content = [event.text for event in events if isinstance(event, Content)]
    assert sum(map(len, content)) >= 12_800 - 4096


@pytest.mark.parametrize("blanks", [4096, 4097])
@pytest.mark.parametrize("cuts", [[], list(range(300, 4400, 7))], ids=["whole", "pieces"])
def test_blanks_between_calls_are_dropped_up_to_a_bound(blanks: int, cuts: list[int]) -> None:
    events = events_of(HERMES, CALL + " " * blanks + CALL, cuts)
    content = [event.text for event in events if isinstance(event, Content)]
    assert content == ([] if blanks == 4096 else [" " * blanks])
    assert events.count(CallBegun("f")) == 2


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<é>\n"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": "é"}}}],
    },
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("prompted", [True, False])
def test_a_template_renders_as_transformers_renders_it(
    tmp_path: Path, tools: list[dict[str, Any]] | None, prompted: bool
) -> None:
    from transformers import PreTrainedTokenizerFast

    save_tokenizer(make_tokenizer(), tmp_path)
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path).apply_chat_template(
        MESSAGES,
        tools=tools,
        add_generation_prompt=prompted,
        tokenize=False,
    )
    ours = ChatTemplate(CHAT_TEMPLATE, {"eos_token": "<|end|>"}).render(
        MESSAGES, tools=tools, add_generation_prompt=prompted
    )
    assert ours == theirs


def test_a_template_may_reject_messages_and_cannot_leave_its_sandbox() -> None:
    rejecting = ChatTemplate("{{ raise_exception('no ' + messages[0].role) }}", {})
    with pytest.raises(TemplateRejected, match="no user"):
        rejecting.render([{"role": "user"}])
    dividing = ChatTemplate("{{ 100 // budget }}", {})
    with pytest.raises(TemplateRejected, match="zero"):
        dividing.render([], more={"budget": 0})
    escaping = ChatTemplate("{{ messages.__class__.__mro__ }}", {})
    with pytest.raises(TemplateRejected):
        escaping.render([])
    assert ChatTemplate("{% generation %}{{ eos_token }}{% endgeneration %}", {"eos_token": "E"}).render([]) == "E"  # fmt: skip


CALLED: list[dict[str, Any]] = [
    {"role": "user", "content": "q"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"a": "é"}}},
        ],
    },
]
EACH = "{% for message in messages %}{% for call in message.tool_calls or [] %}"
JOINED = "{{ '[' + call.function.name + ']' + call.function.arguments }}"
AS_JSON = "{{ call.function | tojson }}"
IF_NULL, IF_TEXT = "{% if message.content is none %}", "{% if '</think>' not in message.content %}"
ENDS = "{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHAT_TEMPLATE, '{"name": "f", "arguments": {"a": "é"}}'),
        (EACH + IF_TEXT + AS_JSON + "{% endif %}" + ENDS, '{"name": "f", "arguments": {"a": "é"}}'),
        (EACH + IF_NULL + AS_JSON + "{% endif %}" + ENDS, '{"name": "f", "arguments": {"a": "é"}}'),
        (EACH + JOINED + ENDS, '[f]{"a": "é"}'),
        (EACH + IF_NULL + JOINED + "{% endif %}" + ENDS, '[f]{"a": "é"}'),
    ],
    ids=["hermes", "qwen3", "null-content", "deepseek-v3.1", "deepseek-r1"],
)
def test_earlier_calls_have_the_form_that_the_template_renders(
    template: str, expected: str
) -> None:
    text = ChatTemplate(template, {"eos_token": "<|end|>"}).render(CALLED)
    assert expected in text
    assert "None" not in text


def test_a_folder_without_a_tokenizer_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidTokenizer, match=r"tokenizer\.json is missing"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InvalidTokenizer, match="cannot be read"):
        load_tokenizer(tmp_path)


def test_end_ids_are_those_of_the_generation_config_and_the_tokenizer_s(tmp_path: Path) -> None:
    save_tokenizer(make_tokenizer(), tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    assert load_tokenizer(tmp_path).end_ids == {0, 5, 6}


@pytest.mark.parametrize("saved", ["listed", "in-files"])
def test_a_conversation_with_tools_has_the_models_template_for_tools(
    tmp_path: Path, saved: str
) -> None:
    save_tokenizer(make_tokenizer(), tmp_path)
    path, named = tmp_path / "tokenizer_config.json", {"default": "plain", "tool_use": "tools"}
    config = json.loads(path.read_text())
    if saved == "listed":
        config["chat_template"] = [{"name": k, "template": v} for k, v in named.items()]
    else:
        config.pop("chat_template")
        (tmp_path / "chat_template.jinja").write_text(named["default"])
        (tmp_path / "additional_chat_templates").mkdir()
        (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text(named["tool_use"])
    path.write_text(json.dumps(config))
    templates = [load_tokenizer(tmp_path).template(tools=tools) for tools in (False, True)]
    assert [template and template.source for template in templates] == ["plain", "tools"]
