"""Chat completions: conversion of a body to a call, and of the generated chunks to OpenAI's objects."""

from dataclasses import dataclass, field, replace
from typing import Final

from orjson import Fragment
from typing_extensions import override

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.chat.deltas import AssembledMessage, ChatDeltaBuilder, Delta
from penstock_runtime.protocols.openai.chat.prompts import render
from penstock_runtime.protocols.openai.chat.tools import Toolbox, toolbox
from penstock_runtime.protocols.openai.logprobs import chat_logprobs, prompt_logprobs
from penstock_runtime.protocols.openai.response import (
    AnswerFormat,
    Object,
    ResponseHead,
    usage,
    usage_so_far,
)
from penstock_runtime.protocols.openai.response_format import grammar_of
from penstock_runtime.protocols.openai.sampling import (
    SamplingRequest,
    Terms,
    check_returned,
    make_call,
    make_prompt,
    sampling,
)
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
    """The state of one answer while it is generated."""

    builder: ChatDeltaBuilder
    opened: bool = False
    message: AssembledMessage = field(default_factory=AssembledMessage)
    logprobs: list[Fragment] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    ended: Chunk | None = None


class ChatAnswer(AnswerFormat):
    """`chat.completion` and its chunks."""

    ends_with_done = True
    returns_prompts = False

    def __init__(
        self,
        body: ChatBody,
        call: GenerationCall,
        model: str,
        builders: list[ChatDeltaBuilder],
        vocabulary: Vocabulary,
    ) -> None:
        self.call = call
        self._body = body
        self._vocabulary = vocabulary
        self._choices = [_ChatChoice(builder) for builder in builders]
        self._head = ResponseHead("chatcmpl", _CHUNK if body.stream else "chat.completion", model)
        self._prompt_sent = False
        self._scored: PromptScores | None = None

    @override
    def chunks(self, pieces: list[Chunk], cost: TokenUsage) -> list[Object]:
        chunks = []
        for piece in pieces:
            for choice in self._choice_chunks(piece):
                chunk = self._head.chunk(
                    [choice],
                    usage_so_far(self._body, cost),
                    with_usage=self._body.usage_in_stream,
                )
                if self._body.return_token_ids and not self._prompt_sent:
                    self._prompt_sent = True
                    chunk["prompt_token_ids"] = list(self.call.prompts[0].ids)
                chunks.append(chunk)
        return chunks

    @override
    def closing(self, cost: TokenUsage) -> list[Object]:
        with_usage = self._body.usage_in_stream
        return [self._head.chunk([], usage(cost), with_usage=True)] if with_usage else []

    @override
    def take(self, pieces: list[Chunk]) -> None:
        for piece in pieces:
            self._scored = piece.scored or self._scored
            choice = self._choices[piece.index]
            for delta in self._deltas(choice, piece):
                choice.message.add(delta)
            choice.logprobs += self._logprobs(piece) or []
            choice.token_ids += piece.tokens
            if piece.finish is not None:
                choice.ended = piece

    @override
    def whole(self, cost: TokenUsage) -> Object:
        choices = [self._whole_choice(*entry) for entry in enumerate(self._choices)]
        whole = self._head.whole(choices, usage(cost))
        if self._body.return_token_ids:
            whole["prompt_token_ids"] = list(self.call.prompts[0].ids)
        top = self._body.prompt_logprobs
        if top is not None:
            ids = self.call.prompts[0].ids
            whole["prompt_logprobs"] = prompt_logprobs(
                ids, self._scored or (), self._vocabulary, top
            )
        return whole

    def _choice_chunks(self, piece: Chunk) -> list[Object]:
        choice = self._choices[piece.index]
        opening: list[Delta] = []
        if not choice.opened:
            choice.opened = True
            opening.append({"role": "assistant", "content": ""})
        deltas = self._deltas(choice, piece)
        logprobs, ids = self._logprobs(piece), self._body.return_token_ids and bool(piece.tokens)
        if not deltas and (logprobs or ids):
            deltas = [{}]
        events: list[Object] = [_event(piece, delta) for delta in opening + deltas]
        if deltas and logprobs:
            events[-len(deltas)]["logprobs"] = {"content": logprobs, "refusal": None}
        if deltas and ids:
            events[-len(deltas)]["token_ids"] = list(piece.tokens)
        if piece.finish is not None:
            last = _event(piece, {})
            last["finish_reason"] = choice.builder.finish_reason(piece.finish)
            last["stop_reason"] = piece.stop
            events.append(last)
        return events

    def _deltas(self, choice: _ChatChoice, piece: Chunk) -> list[Delta]:
        deltas = choice.builder.push(piece.text, last=piece.finish is not None)
        if not self._body.include_reasoning:
            deltas = [delta for delta in deltas if "reasoning" not in delta]
        return deltas

    def _logprobs(self, piece: Chunk) -> list[Fragment] | None:
        if not self._body.logprobs or not piece.tokens:
            return None
        return chat_logprobs(piece.tokens, piece.logprobs, self._vocabulary)

    def _whole_choice(self, index: int, choice: _ChatChoice) -> Object:
        ended = choice.ended
        reason = choice.builder.finish_reason(ended.finish) if ended and ended.finish else None
        logprobs = {"content": choice.logprobs, "refusal": None} if self._body.logprobs else None
        whole = {
            "index": index,
            "message": choice.message.render(),
            "logprobs": logprobs,
            "finish_reason": reason,
            "stop_reason": ended.stop if ended else None,
        }
        return whole | ({"token_ids": choice.token_ids} if self._body.return_token_ids else {})


def _event(piece: Chunk, delta: Delta) -> Object:
    return {"index": piece.index, "delta": delta, "logprobs": None, "finish_reason": None}


async def chat_answer(body: ChatBody, model: str, terms: Terms) -> ChatAnswer:
    """Return the call in `body`, checked, with the format of its answer.

    Raises:
        BadInput: a field is invalid.
    """
    serving, requested = terms.serving, _sampling_request(body)
    params = sampling(body, terms, requested)
    tokenizer = serving.tokenizer
    tools = toolbox(body, _source(tokenizer.template(tools=True)))
    text, ids = await render(serving, body.messages, body, tools.shown)
    prompt = make_prompt(ids, text, params, terms, requested)
    if body.prompt_logprobs is not None:
        check_returned(len(ids), 1 + body.prompt_logprobs, "prompt_logprobs")
    call = make_call(body, (prompt,), terms)
    call = await _with_grammar(call, body, tools, terms)
    source = _source(tokenizer.template(tools=bool(tools.shown)))
    thinks = OPENS in source and call.shape is None
    markers = tokenizer.ids_of((*tools.markers, *((OPENS, CLOSES) if thinks else ())))
    call = replace(call, markers=markers)
    builders = [
        ChatDeltaBuilder(tools, ReasoningSplitter(begun=opens_thought(text)) if thinks else None)
        for _ in range(call.choices)
    ]
    return ChatAnswer(body, call, model, builders, tokenizer.vocabulary)


def _source(template: ChatTemplate | None) -> str:
    return template.source if template is not None else ""


def _sampling_request(body: ChatBody) -> SamplingRequest:
    if body.top_logprobs and not body.logprobs:
        raise BadInput("`top_logprobs` needs `logprobs`: set it to true", field="top_logprobs")
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    max_tokens, name = body.max_completion_tokens, "max_completion_tokens"
    if max_tokens is None:
        max_tokens, name = body.max_tokens, "max_tokens"
    return SamplingRequest(
        max_tokens,
        name,
        logprobs=logprobs,
        prompt_logprobs=body.prompt_logprobs,
        prompt_field="messages",
    )


async def _with_grammar(
    call: GenerationCall, body: ChatBody, tools: Toolbox, terms: Terms
) -> GenerationCall:
    grammar = grammar_of(body)
    if tools.grammar is not None:
        if grammar is not None:
            raise BadInput(
                f"`{grammar[1]}` and `tool_choice` both set the format of the answer: send one of them",
                field=grammar[1],
            )
        grammar = (tools.grammar, "tools")
    if grammar is None:
        return call
    return replace(call, shape=await terms.serving.compile(*grammar, terms.resources))
