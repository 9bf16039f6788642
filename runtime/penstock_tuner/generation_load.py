"""Load of text generation: streamed completions with prompts of random tokens and answers of exact lengths. Does I/O."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle
from typing import Any

import aiohttp

from penstock_tuner.load import MAX_REASON, Sender, failure, rejection
from penstock_tuner.settings import FailedRequest, Latencies

TOKEN_IDS = range(1, 100)
"""Ids of prompts; every vocabulary has them. Random prompts share no prefix that a cache could serve."""
DATA, END = b"data: ", b"[DONE]"


@dataclass(frozen=True, slots=True)
class TextShape:
    """Tokens of one request."""

    prompt: int
    output: int


def shapes(prompts: Sequence[int], outputs: Sequence[int]) -> list[TextShape]:
    """Return the shapes of the requests, sent in turn: the lengths in pairs, the shorter list repeated."""
    count = max(len(prompts), len(outputs))
    return [TextShape(prompts[at % len(prompts)], outputs[at % len(outputs)]) for at in range(count)]  # fmt: skip


def generation_sender(url: str, model: str, requests: Sequence[TextShape], seed: int) -> Sender:
    """Return the sender of streamed completions; one that ends before its length counts as failed."""
    turns, draw = cycle(requests), random.Random(seed)  # noqa: S311  tokens, not secrets

    async def send(session: aiohttp.ClientSession, began: float) -> Latencies | FailedRequest:
        shape = next(turns)
        prompt = [draw.choice(TOKEN_IDS) for _ in range(shape.prompt)]
        try:
            async with session.post(url, json=completion(model, prompt, shape.output)) as answer:
                if answer.status != HTTPStatus.OK:
                    return await rejection(answer)
                return await _read(answer.content, began, shape.output)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return failure(error)

    return send


def completion(model: str, prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    """Return the body of a streamed completion of exactly `tokens` tokens."""
    return {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _read(
    lines: aiohttp.StreamReader, began: float, tokens: int
) -> Latencies | FailedRequest:
    """Read a stream to its end; return its latencies if it has `tokens` tokens."""
    first, counted, last = None, 0, b""
    async for line in lines:
        if not line.startswith(DATA) or line.startswith(DATA + END):
            continue
        last = line.removeprefix(DATA)
        event: Mapping[str, Any] = json.loads(last)
        if event.get("choices") and first is None:
            first = time.perf_counter()
        counted = (event.get("usage") or {}).get("completion_tokens", counted)
    ended = time.perf_counter()
    if first is None or counted != tokens:
        ending = last.decode(errors="replace").strip()[:MAX_REASON]
        return FailedRequest(f"the answer has {counted} of {tokens} tokens, and ends with {ending}")
    later = (ended - first) / (tokens - 1) if tokens > 1 else None
    return Latencies(ended - began, first - began, later)
