"""Plain completions: from a body to a call, and from its pieces to OpenAI's objects."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from penstock_runtime.engine.continuous.messages import FinishReason
from penstock_runtime.engine.continuous.prompt_scores import PromptLogprob, PromptScores
from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.openai.logprobs import completion_logprobs, prompt_logprobs
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
from penstock_runtime.protocols.openai.wire.completion import CompletionBody
from penstock_runtime.serving.generation.choice import Chunk
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import TokenUsage
from penstock_runtime.text.detokenizer import detokenize
from penstock_runtime.text.vocabulary import Vocabulary

DEFAULT_TOKENS = 16
"""OpenAI's own for completions."""


@dataclass(slots=True)
class _CompletionChoice:
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    pieces: list[Chunk] = field(default_factory=list)
    """Those with log-probabilities."""
    opened: bool = False
    offset: int = 0
    """Where the text of the next token begins."""
    ended: Chunk | None = None


class CompletionAnswer:
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
        """By prompt."""
        self._silent = body.max_tokens == 0
        """Nothing but the prompt comes back; the one token that the engine drew after it is nobody's."""
        self._head = ResponseHead("cmpl", "text_completion", model)
        self.returns_prompts = body.echo or body.return_token_ids

    def chunks(self, pieces: list[Chunk], cost: TokenUsage) -> list[Object]:
        """As `AnswerFormat.chunks`."""
        so_far = usage_so_far(self._body, self._cost(cost))
        wanted = self._body.usage_in_stream
        made = [self._chunk(piece) for piece in self._heard(pieces) if self._tells(piece)]
        return [self._head.chunk([one], so_far, with_usage=wanted) for one in made]

    def closing(self, cost: TokenUsage) -> list[Object]:
        """As `AnswerFormat.closing`."""
        wanted = self._body.usage_in_stream
        told = usage(self._cost(cost))
        return [self._head.chunk([], told, with_usage=True)] if wanted else []

    def take(self, pieces: list[Chunk]) -> None:
        """As `AnswerFormat.take`."""
        for piece in self._heard(pieces):
            choice = self._choices[piece.index]
            choice.text += piece.text
            choice.tokens += piece.tokens
            if piece.logprobs:
                choice.pieces.append(piece)
            if piece.finish is not None:
                choice.ended = piece

    def whole(self, cost: TokenUsage) -> Object:
        """As `AnswerFormat.whole`."""
        choices = [self._whole_choice(*one) for one in enumerate(self._choices)]
        return self._head.whole(choices, usage(self._cost(cost)))

    def _heard(self, pieces: list[Chunk]) -> list[Chunk]:
        """Keep what `pieces` say of prompts; return what they say of answers."""
        for piece in pieces:
            if piece.scored:
                self._scored[piece.index // self.call.n] = piece.scored
        if not self._silent:
            return pieces
        length = FinishReason.LENGTH
        return [Chunk(one.index, finish=length) for one in pieces if one.finish is not None]

    def _cost(self, cost: TokenUsage) -> TokenUsage:
        return replace(cost, completion_tokens=0) if self._silent else cost

    def _tells(self, piece: Chunk) -> bool:
        wanted = self._body.return_token_ids or self._body.logprobs is not None
        return bool(piece.text or piece.finish is not None or (wanted and piece.tokens))

    def _chunk(self, piece: Chunk) -> Object:
        choice = self._choices[piece.index]
        text = piece.text
        first, choice.opened = not choice.opened, True
        if first and self._body.echo:
            text = self._prompt_text(piece.index) + text
        made: Object = {
            "index": piece.index,
            "text": text,
            "logprobs": self._logprobs(piece.index, [piece], echo=first and self._body.echo),
            "finish_reason": piece.finish,
            "stop_reason": piece.stop,
        }
        if self._body.return_token_ids:
            made["token_ids"] = list(piece.tokens)
            made["prompt_token_ids"] = self._prompt_ids(piece.index) if first else None
        return made

    def _whole_choice(self, index: int, choice: _CompletionChoice) -> Object:
        made: Object = {
            "index": index,
            "text": (self._prompt_text(index) if self._body.echo else "") + choice.text,
            "logprobs": self._logprobs(index, choice.pieces, echo=self._body.echo),
            "finish_reason": choice.ended.finish if choice.ended else None,
            "stop_reason": choice.ended.stop if choice.ended else None,
        }
        if self._body.return_token_ids:
            made["token_ids"] = choice.tokens
            made["prompt_token_ids"] = self._prompt_ids(index)
        most = self._body.prompt_logprobs
        if most is not None:
            ids, scored = self._prompt_ids(index), self._prompt_scores(index)
            made["prompt_logprobs"] = prompt_logprobs(ids, scored, self._vocabulary, most)
        return made

    def _logprobs(self, index: int, pieces: list[Chunk], *, echo: bool) -> Object | None:
        most = self._body.logprobs
        if most is None:
            return None
        choice, held = self._choices[index], [piece for piece in pieces if piece.logprobs]
        tokens = self._prompt_ids(index) if echo else []
        echoed = chain((None,), self._prompt_scores(index)) if echo else ()
        tokens += [token for piece in held for token in piece.tokens]
        logprobs = chain(echoed, (one for piece in held for one in piece.logprobs))
        made = completion_logprobs(tokens, logprobs, self._vocabulary, choice.offset, most)
        choice.offset += sum(len(one) for one in made["tokens"])
        return made

    def _prompt_scores(self, index: int) -> Iterable[PromptLogprob]:
        return self._scored.get(index // self.call.n, ())

    def _prompt_text(self, index: int) -> str:
        return self.call.prompts[index // self.call.n].text

    def _prompt_ids(self, index: int) -> list[int]:
        return list(self.call.prompts[index // self.call.n].ids)


async def completion_answer(body: CompletionBody, model: str, terms: Terms) -> CompletionAnswer:
    """Return what `body` asks for, judged.

    Raises:
        BadInput: with the field.
    """
    if body.max_tokens == 0 and not body.echo:
        raise BadInput(
            "`max_tokens` must be at least 1, or 0 with `echo`, got 0", field="max_tokens"
        )
    asked = SamplingRequest(
        None if body.max_tokens is None else max(1, body.max_tokens),
        default_tokens=DEFAULT_TOKENS,
        logprobs=body.logprobs,
        prompt_logprobs=body.max_prompt_logprobs,
    )
    serving, params = terms.serving, sampling(body, terms, asked)
    vocabulary = serving.tokenizer.vocabulary
    prompts = []
    for one in body.prompts:
        await asyncio.sleep(0)  # each takes milliseconds, and there may be 128
        if isinstance(one, str):
            ids = await serving.encoder.encode(one, "prompt", add_special=body.add_special_tokens)
            text = one
        else:
            serving.encoder.check_ids(len(one), "prompt")
            ids = one
            text = detokenize(vocabulary, one) if body.echo else ""
        prompts.append(make_prompt(ids, text, params, terms, asked))
    call = make_call(body, tuple(prompts), terms)
    tokens = call.n * sum(len(one.ids) for one in prompts)
    check_returned(tokens, *body.values_per_token)
    grammar = grammar_of(body)
    if grammar is not None:
        call = replace(call, shape=await serving.compile(*grammar, terms.held))
    return CompletionAnswer(body, call, model, vocabulary)
