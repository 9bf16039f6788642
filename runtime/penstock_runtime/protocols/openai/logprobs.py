"""Log-probabilities in OpenAI's two shapes."""

from collections.abc import Sequence
from typing import Any

from penstock_runtime.generation.messages import Logprob
from penstock_runtime.text.vocabulary import Vocabulary


def chat_logprobs(
    tokens: Sequence[int], logprobs: Sequence[Logprob], vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Return one object a token, as chat completions have them."""
    return [
        {
            **_entry(token, one.chosen, vocabulary),
            "top_logprobs": [_entry(other, value, vocabulary) for other, value in one.top],
        }
        for token, one in zip(tokens, logprobs, strict=True)
    ]


def _entry(token: int, value: float, vocabulary: Vocabulary) -> dict[str, Any]:
    spelt = vocabulary.bytes_of(token)
    return {"token": _text(spelt), "logprob": _finite(value), "bytes": list(spelt)}


def completion_logprobs(
    tokens: Sequence[int], logprobs: Sequence[Logprob], vocabulary: Vocabulary, offset: int
) -> dict[str, Any]:
    """Return lists that run in parallel, as completions have them; `offset` is where the text begins."""
    texts = [_text(vocabulary.bytes_of(token)) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [_finite(one.chosen) for one in logprobs],
        "top_logprobs": [
            {_text(vocabulary.bytes_of(other)): _finite(value) for other, value in one.top}
            for one in logprobs
        ],
        "text_offset": offsets,
    }


def _text(spelt: bytes) -> str:
    return spelt.decode("utf-8", "replace")


def _finite(value: float) -> float:
    """Return a number that JSON has: a token that was forbidden is as unlikely as -9999 (vLLM's word)."""
    return max(value, -9999.0)
