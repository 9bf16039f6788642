"""Chat completions: from a body to a call, and from its pieces to OpenAI's objects."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from orjson import Fragment

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.chat_deltas import AssembledMessage, ChatDeltaBuilder, Delta
from penstock_runtime.protocols.openai.logprobs import chat_logprobs, prompt_logprobs
from penstock_runtime.protocols.openai.prompts import render
from penstock_runtime.protocols.openai.response import Object, ResponseHead, usage, usage_so_far
from penstock_runtime.protocols.openai.response_format import grammar_of
from penstock_runtime.protocols.openai.sampling import (
    SamplingRequest,
    Terms,
    check_returned,
    make_call,
    make_prompt,
    sampling,
)
from penstock_runtime.protocols.openai.tools import Toolbox, toolbox
from penstock_runtime.protocols.openai.wire.chat import ChatBody
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage
from penstock_runtime.text.chat_template import ChatTemplate
from penstock_runtime.text.reasoning import CLOSES, OPENS, ReasoningSplitter, opens_thought
from penstock_runtime.text.vocabulary import Vocabulary

_CHUNK: Final = "chat.completion.chunk"


@dataclass(slots=True)
class _ChatChoice:
    """One answer as it comes."""

    speaker: ChatDeltaBuilder
    opened: bool = False
    message: AssembledMessage = field(default_factory=AssembledMessage)
    logprobs: list[Fragment] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    ended: Chunk | None = None


class ChatAnswer:
    """`chat.completion` and its chunks."""

    ends_with_done = True
    returns_prompts = False

    def __init__(
        self,
        body: ChatBody,
        call: GenerationCall,
        model: str,
        speakers: list[ChatDeltaBuilder],
        vocabulary: Vocabulary,
    ) -> None:
        self.call = call
        self._body = body
        self._vocabulary = vocabulary
        self._choices = [_ChatChoice(one) for one in speakers]
        self._head = ResponseHead("chatcmpl", _CHUNK if body.stream else "chat.completion", model)
        self._told_prompt = False
        self._scored: PromptScores | None = None

    def chunks(self, pieces: list[Chunk], cost: TokenUsage) -> list[Object]:
        """As `AnswerFormat.chunks`."""
        made = []
        for piece in pieces:
            for choice in self._choice_chunks(piece):
                chunk = self._head.chunk(
                    [choice],
                    usage_so_far(self._body, cost),
                    with_usage=self._body.usage_in_stream,
                )
                if self._body.return_token_ids and not self._told_prompt:
                    self._told_prompt = True
                    chunk["prompt_token_ids"] = list(self.call.prompts[0].ids)
                made.append(chunk)
        return made

    def closing(self, cost: TokenUsage) -> list[Object]:
        """As `AnswerFormat.closing`."""
        wanted = self._body.usage_in_stream
        return [self._head.chunk([], usage(cost), with_usage=True)] if wanted else []

    def take(self, pieces: list[Chunk]) -> None:
        """As `AnswerFormat.take`."""
        for piece in pieces:
            self._scored = piece.scored or self._scored
            choice = self._choices[piece.index]
            for delta in self._say(choice, piece):
                choice.message.add(delta)
            choice.logprobs += self._logprobs(piece) or []
            choice.token_ids += piece.tokens
            if piece.finish is not None:
                choice.ended = piece

    def whole(self, cost: TokenUsage) -> Object:
        """As `AnswerFormat.whole`."""
        choices = [self._whole_choice(*one) for one in enumerate(self._choices)]
        whole = self._head.whole(choices, usage(cost))
        if self._body.return_token_ids:
            whole["prompt_token_ids"] = list(self.call.prompts[0].ids)
        most = self._body.prompt_logprobs
        if most is not None:
            ids = self.call.prompts[0].ids
            whole["prompt_logprobs"] = prompt_logprobs(
                ids, self._scored or (), self._vocabulary, most
            )
        return whole

    def _choice_chunks(self, piece: Chunk) -> list[Object]:
        choice = self._choices[piece.index]
        deltas: list[Delta] = []
        if not choice.opened:
            choice.opened = True
            deltas.append({"role": "assistant", "content": ""})
        said = self._say(choice, piece)
        logprobs, ids = self._logprobs(piece), self._body.return_token_ids and bool(piece.tokens)
        if not said and (logprobs or ids):
            said = [{}]
        made: list[Object] = [_event(piece, one) for one in deltas + said]
        if said and logprobs:
            made[-len(said)]["logprobs"] = {"content": logprobs, "refusal": None}
        if said and ids:
            made[-len(said)]["token_ids"] = list(piece.tokens)
        if piece.finish is not None:
            last = _event(piece, {})
            last["finish_reason"] = choice.speaker.finish_reason(piece.finish)
            last["stop_reason"] = piece.stop
            made.append(last)
        return made

    def _say(self, choice: _ChatChoice, piece: Chunk) -> list[Delta]:
        said = choice.speaker.push(piece.text, last=piece.finish is not None)
        if not self._body.include_reasoning:
            said = [one for one in said if "reasoning_content" not in one]
        return said

    def _logprobs(self, piece: Chunk) -> list[Fragment] | None:
        if not self._body.logprobs or not piece.tokens:
            return None
        return chat_logprobs(piece.tokens, piece.logprobs, self._vocabulary)

    def _whole_choice(self, index: int, choice: _ChatChoice) -> Object:
        ended = choice.ended
        reason = choice.speaker.finish_reason(ended.finish) if ended and ended.finish else None
        held = {"content": choice.logprobs, "refusal": None} if self._body.logprobs else None
        made = {
            "index": index,
            "message": choice.message.render(),
            "logprobs": held,
            "finish_reason": reason,
            "stop_reason": ended.stop if ended else None,
        }
        return made | ({"token_ids": choice.token_ids} if self._body.return_token_ids else {})


def _event(piece: Chunk, delta: Delta) -> Object:
    return {"index": piece.index, "delta": delta, "logprobs": None, "finish_reason": None}


async def chat_answer(body: ChatBody, model: str, terms: Terms) -> ChatAnswer:
    """Return what `body` asks for, judged.

    Raises:
        BadInput: with the field.
    """
    serving, asked = terms.serving, _asked(body)
    params = sampling(body, terms, asked)
    tokenizer = serving.tokenizer
    tools = toolbox(body, _source(tokenizer.template(tools=True)))
    text, ids = await render(
        serving,
        body.messages,
        tools=tools.shown,
        add_generation_prompt=body.add_generation_prompt,
        more=_template_arguments(body),
    )
    prompt = make_prompt(ids, text, params, terms, asked)
    if body.prompt_logprobs is not None:
        check_returned(len(ids), 1 + body.prompt_logprobs, "prompt_logprobs")
    call = make_call(body, (prompt,), terms)
    call = await _with_grammar(call, body, tools, terms)
    source = _source(tokenizer.template(tools=bool(tools.shown)))
    thinks = OPENS in source and call.shape is None
    markers = tokenizer.ids_of((*tools.markers, *((OPENS, CLOSES) if thinks else ())))
    call = replace(call, markers=markers)
    speakers = [
        ChatDeltaBuilder(tools, ReasoningSplitter(begun=opens_thought(text)) if thinks else None)
        for _ in range(call.choices)
    ]
    return ChatAnswer(body, call, model, speakers, tokenizer.vocabulary)


def _source(template: ChatTemplate | None) -> str:
    return template.source if template is not None else ""


def _asked(body: ChatBody) -> SamplingRequest:
    if body.top_logprobs and not body.logprobs:
        raise BadInput("`top_logprobs` needs `logprobs`: set it to true", field="top_logprobs")
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    most, named = body.max_completion_tokens, "max_completion_tokens"
    if most is None:
        most, named = body.max_tokens, "max_tokens"
    return SamplingRequest(
        most,
        named,
        logprobs=logprobs,
        prompt_logprobs=body.prompt_logprobs,
        prompt_field="messages",
    )


def _template_arguments(body: ChatBody) -> dict[str, Any]:
    effort = {"reasoning_effort": body.reasoning_effort} if body.reasoning_effort else {}
    return {**effort, **(body.chat_template_kwargs or {})}


async def _with_grammar(
    call: GenerationCall, body: ChatBody, tools: Toolbox, terms: Terms
) -> GenerationCall:
    asked = grammar_of(body)
    if tools.grammar is not None:
        if asked is not None:
            raise BadInput(
                f"`{asked[1]}` and `tool_choice` both ask for a shape: give one of them",
                field=asked[1],
            )
        asked = (tools.grammar, "tools")
    if asked is None:
        return call
    return replace(call, shape=await terms.serving.compile(*asked, terms.held))
