"""Log-probabilities in the two formats of OpenAI, and in vLLM's for prompts.

The entry of each token is rendered as JSON at once: a million objects, one for each alternative, would take half a
second to create and free.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from penstock_runtime.engine.continuous.messages import Logprob
from penstock_runtime.engine.continuous.prompt_scores import PromptLogprob
from penstock_runtime.text.vocabulary import Vocabulary


def chat_logprobs(
    tokens: Sequence[int], logprobs: Sequence[Logprob], vocabulary: Vocabulary
) -> list[orjson.Fragment]:
    """Return one object per token, as in chat completions."""
    return [
        _rendered(
            {
                **_entry(token, logprob.chosen, vocabulary),
                "top_logprobs": [_entry(other, value, vocabulary) for other, value in logprob.top],
            }
        )
        for token, logprob in zip(tokens, logprobs, strict=True)
    ]


def _entry(token: int, value: float, vocabulary: Vocabulary) -> dict[str, Any]:
    raw = vocabulary.bytes_of(token)
    return {"token": _text(raw), "logprob": _finite(value), "bytes": list(raw)}


def prompt_logprobs(
    tokens: Sequence[int], scored: Iterable[PromptLogprob], vocabulary: Vocabulary, top: int
) -> list[orjson.Fragment | None]:
    """Return a prompt's log-probabilities in vLLM's format: None for the first token, and for each other the top tokens and itself."""
    return [None] + [
        _rendered(
            {
                str(other): {
                    "logprob": _finite(value),
                    "rank": rank,
                    "decoded_token": _text(vocabulary.bytes_of(other)),
                }
                for rank, other, value in _ranked(token, logprob, top)
            }
        )
        for token, logprob in zip(tokens[1:], scored, strict=True)
    ]


def _ranked(token: int, logprob: PromptLogprob, top: int) -> list[tuple[int, int, float]]:
    best = [(rank, other, value) for rank, (other, value) in enumerate(logprob.top[:top], start=1)]
    included = any(other == token for _, other, _ in best)
    return best if included else [(logprob.rank, token, logprob.chosen), *best]


def completion_logprobs(
    tokens: Sequence[int],
    logprobs: Iterable[Logprob | PromptLogprob | None],
    vocabulary: Vocabulary,
    offset: int,
    top: int,
) -> dict[str, Any]:
    """Return parallel lists, as in completions; `offset` is where the text begins.

    `top_logprobs` has the `top` most probable tokens of each position, and the actual token if it is not one of them. The
    first token of a prompt has no prediction: its log-probability is None.
    """
    texts = [_text(vocabulary.bytes_of(token)) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    chosen: list[float | None] = []
    top_logprobs: list[orjson.Fragment | None] = []
    for token, logprob in zip(tokens, logprobs, strict=True):
        chosen.append(None if logprob is None else _finite(logprob.chosen))
        best = None if logprob is None else _top(token, logprob, top, vocabulary)
        top_logprobs.append(None if best is None else _rendered(best))
    return {
        "tokens": texts,
        "token_logprobs": chosen,
        "top_logprobs": top_logprobs,
        "text_offset": offsets,
    }


def _top(
    token: int, logprob: Logprob | PromptLogprob, top: int, vocabulary: Vocabulary
) -> dict[str, float]:
    # the actual token comes last, so that it wins over another token with the same text
    entries = (*logprob.top[:top], (token, logprob.chosen))
    return {_text(vocabulary.bytes_of(at)): _finite(value) for at, value in entries}


def _rendered(value: dict[str, Any]) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(value))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _finite(value: float) -> float:
    """Return a number that JSON can represent: the log-probability of a forbidden token is -9999, as in vLLM."""
    return max(value, -9999.0)
