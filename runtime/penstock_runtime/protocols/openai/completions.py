"""Completions: conversion of a body to a call, and of the generated chunks to OpenAI's objects."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from typing_extensions import override

from penstock_runtime.engine.continuous.messages import FinishReason
from penstock_runtime.engine.continuous.prompt_scores import PromptLogprob, PromptScores
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.logprobs import completion_logprobs, prompt_logprobs
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
from penstock_runtime.protocols.openai.wire.completion import CompletionBody
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage
from penstock_runtime.text.detokenizer import detokenize
from penstock_runtime.text.vocabulary import Vocabulary

DEFAULT_TOKENS = 16
"""OpenAI's default of `max_tokens` for completions."""


@dataclass(slots=True)
class _CompletionChoice:
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    pieces: list[Chunk] = field(default_factory=list)
    """The chunks with log-probabilities."""
    opened: bool = False
    offset: int = 0
    """The offset of the next token's text."""
    ended: Chunk | None = None


class CompletionAnswer(AnswerFormat):
    """`text_completion`, whole or in chunks."""

    ends_with_done = True

    def __init__(
        self, body: CompletionBody, call: GenerationCall, model: str, vocabulary: Vocabulary
    ) -> None:
        self.call = call
        self._body = body
        self._vocabulary = vocabulary
        self._choices = [_CompletionChoice() for _ in range(call.choices)]
        self._scored: dict[int, PromptScores] = {}
        """Log-probabilities of each prompt."""
        self._silent = body.max_tokens == 0
        """Whether the answer is the prompt alone, without the token that the engine had to sample after it."""
        self._head = ResponseHead("cmpl", "text_completion", model)
        self.returns_prompts = body.echo or body.return_token_ids

    @override
    def chunks(self, pieces: list[Chunk], cost: TokenUsage) -> list[Object]:
        so_far = usage_so_far(self._body, self._cost(cost))
        with_usage = self._body.usage_in_stream
        choices = [self._chunk(piece) for piece in self._visible(pieces) if self._has_event(piece)]
        return [self._head.chunk([choice], so_far, with_usage=with_usage) for choice in choices]

    @override
    def closing(self, cost: TokenUsage) -> list[Object]:
        if not self._body.usage_in_stream:
            return []
        return [self._head.chunk([], usage(self._cost(cost)), with_usage=True)]

    @override
    def take(self, pieces: list[Chunk]) -> None:
        for piece in self._visible(pieces):
            choice = self._choices[piece.index]
            choice.text += piece.text
            choice.tokens += piece.tokens
            if piece.logprobs:
                choice.pieces.append(piece)
            if piece.finish is not None:
                choice.ended = piece

    @override
    def whole(self, cost: TokenUsage) -> Object:
        choices = [self._whole_choice(*entry) for entry in enumerate(self._choices)]
        return self._head.whole(choices, usage(self._cost(cost)))

    def _visible(self, pieces: list[Chunk]) -> list[Chunk]:
        """Store the log-probabilities of prompts; return the chunks that belong into the answer."""
        for piece in pieces:
            if piece.scored:
                self._scored[piece.index // self.call.n] = piece.scored
        if not self._silent:
            return pieces
        length = FinishReason.LENGTH
        return [Chunk(piece.index, finish=length) for piece in pieces if piece.finish is not None]

    def _cost(self, cost: TokenUsage) -> TokenUsage:
        return replace(cost, completion_tokens=0) if self._silent else cost

    def _has_event(self, piece: Chunk) -> bool:
        with_tokens = self._body.return_token_ids or self._body.logprobs is not None
        return bool(piece.text or piece.finish is not None or (with_tokens and piece.tokens))

    def _chunk(self, piece: Chunk) -> Object:
        choice = self._choices[piece.index]
        text = piece.text
        first, choice.opened = not choice.opened, True
        if first and self._body.echo:
            text = self._prompt_text(piece.index) + text
        chunk: Object = {
            "index": piece.index,
            "text": text,
            "logprobs": self._logprobs(piece.index, [piece], echo=first and self._body.echo),
            "finish_reason": piece.finish,
            "stop_reason": piece.stop,
        }
        if self._body.return_token_ids:
            chunk["token_ids"] = list(piece.tokens)
            chunk["prompt_token_ids"] = self._prompt_ids(piece.index) if first else None
        return chunk

    def _whole_choice(self, index: int, choice: _CompletionChoice) -> Object:
        whole: Object = {
            "index": index,
            "text": (self._prompt_text(index) if self._body.echo else "") + choice.text,
            "logprobs": self._logprobs(index, choice.pieces, echo=self._body.echo),
            "finish_reason": choice.ended.finish if choice.ended else None,
            "stop_reason": choice.ended.stop if choice.ended else None,
        }
        if self._body.return_token_ids:
            whole["token_ids"] = choice.tokens
            whole["prompt_token_ids"] = self._prompt_ids(index)
        top = self._body.prompt_logprobs
        if top is not None:
            ids, scored = self._prompt_ids(index), self._prompt_scores(index)
            whole["prompt_logprobs"] = prompt_logprobs(ids, scored, self._vocabulary, top)
        return whole

    def _logprobs(self, index: int, pieces: list[Chunk], *, echo: bool) -> Object | None:
        top = self._body.logprobs
        if top is None:
            return None
        choice, scored = self._choices[index], [piece for piece in pieces if piece.logprobs]
        tokens = self._prompt_ids(index) if echo else []
        echoed = chain((None,), self._prompt_scores(index)) if echo else ()
        tokens += [token for piece in scored for token in piece.tokens]
        logprobs = chain(echoed, (logprob for piece in scored for logprob in piece.logprobs))
        lists = completion_logprobs(tokens, logprobs, self._vocabulary, choice.offset, top)
        choice.offset += sum(len(text) for text in lists["tokens"])
        return lists

    def _prompt_scores(self, index: int) -> Iterable[PromptLogprob]:
        return self._scored.get(index // self.call.n, ())

    def _prompt_text(self, index: int) -> str:
        return self.call.prompts[index // self.call.n].text

    def _prompt_ids(self, index: int) -> list[int]:
        return list(self.call.prompts[index // self.call.n].ids)


async def completion_answer(body: CompletionBody, model: str, terms: Terms) -> CompletionAnswer:
    """Return the call in `body`, checked, with the format of its answer.

    Raises:
        BadInput: a field is invalid.
    """
    if body.max_tokens == 0 and not body.echo:
        raise BadInput(
            "`max_tokens` must be at least 1, or 0 with `echo`, got 0", field="max_tokens"
        )
    requested = SamplingRequest(
        None if body.max_tokens is None else max(1, body.max_tokens),
        default_tokens=DEFAULT_TOKENS,
        logprobs=body.logprobs,
        prompt_logprobs=body.max_prompt_logprobs,
    )
    serving, params = terms.serving, sampling(body, terms, requested)
    vocabulary = serving.tokenizer.vocabulary
    prompts = []
    for given in body.prompts:
        await asyncio.sleep(0)  # each takes milliseconds, and there may be 128
        if isinstance(given, str):
            ids = await serving.encoder.encode(given, "prompt", add_special=body.add_special_tokens)
            text = given
        else:
            serving.encoder.check_ids(len(given), "prompt")
            ids = given
            text = detokenize(vocabulary, given) if body.echo else ""
        prompts.append(make_prompt(ids, text, params, terms, requested))
    call = make_call(body, tuple(prompts), terms)
    tokens = call.n * sum(len(prompt.ids) for prompt in prompts)
    check_returned(tokens, *body.values_per_token)
    grammar = grammar_of(body)
    if grammar is not None:
        call = replace(call, shape=await serving.compile(*grammar, terms.resources))
    return CompletionAnswer(body, call, model, vocabulary)
