"""Log-probabilities in OpenAI's two shapes.

What is returned of one token is written as JSON at once: an object for each of a million alternatives takes half a second
to collect and to free.
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
    """Return one object a token, as chat completions have them."""
    return [
        _written(
            {
                **_entry(token, one.chosen, vocabulary),
                "top_logprobs": [_entry(other, value, vocabulary) for other, value in one.top],
            }
        )
        for token, one in zip(tokens, logprobs, strict=True)
    ]


def _entry(token: int, value: float, vocabulary: Vocabulary) -> dict[str, Any]:
    spelt = vocabulary.bytes_of(token)
    return {"token": _text(spelt), "logprob": _finite(value), "bytes": list(spelt)}


def prompt_logprobs(
    tokens: Sequence[int], scored: Iterable[PromptLogprob], vocabulary: Vocabulary, most: int
) -> list[orjson.Fragment | None]:
    """Return what vLLM tells of a prompt: of its first token nothing, of each other the likeliest and its own."""
    return [None] + [
        _written(
            {
                str(other): {
                    "logprob": _finite(value),
                    "rank": rank,
                    "decoded_token": _text(vocabulary.bytes_of(other)),
                }
                for rank, other, value in _ranked(token, one, most)
            }
        )
        for token, one in zip(tokens[1:], scored, strict=True)
    ]


def _ranked(token: int, one: PromptLogprob, most: int) -> list[tuple[int, int, float]]:
    best = [(rank, other, value) for rank, (other, value) in enumerate(one.top[:most], start=1)]
    told = any(other == token for _, other, _ in best)
    return best if told else [(one.rank, token, one.chosen), *best]


def completion_logprobs(
    tokens: Sequence[int],
    logprobs: Iterable[Logprob | PromptLogprob | None],
    vocabulary: Vocabulary,
    offset: int,
    most: int,
) -> dict[str, Any]:
    """Return lists that run in parallel, as completions have them; `offset` is where the text begins.

    Each token stands among the `most` most probable in its place, as one more where it is none of them.

    Nothing foretells the first token of a prompt: its log-probability is None.
    """
    texts = [_text(vocabulary.bytes_of(token)) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    chosen: list[float | None] = []
    top: list[orjson.Fragment | None] = []
    for token, one in zip(tokens, logprobs, strict=True):
        chosen.append(None if one is None else _finite(one.chosen))
        best = None if one is None else _top(token, one, most, vocabulary)
        top.append(None if best is None else _written(best))
    return {
        "tokens": texts,
        "token_logprobs": chosen,
        "top_logprobs": top,
        "text_offset": offsets,
    }


def _top(
    token: int, one: Logprob | PromptLogprob, most: int, vocabulary: Vocabulary
) -> dict[str, float]:
    told = (
        *one.top[:most],
        (token, one.chosen),
    )  # last: of two that are spelt alike it is the one told
    return {_text(vocabulary.bytes_of(at)): _finite(value) for at, value in told}


def _written(value: dict[str, Any]) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(value))


def _text(spelt: bytes) -> str:
    return spelt.decode("utf-8", "replace")


def _finite(value: float) -> float:
    """Return a number that JSON has: a token that was forbidden is as unlikely as -9999 (vLLM's word)."""
    return max(value, -9999.0)
