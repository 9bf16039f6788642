"""Warm-up of a generative model before the first request: times steps of several shapes and the copy of a block.

`timed_steps` runs decodes of 1, 2, 4 and more rows over short and long contexts, and prompt chunks, so that the service
curve has a slope even under a fixed cap. The first run of a shape is not timed. `measure` times a prompt token and the
copy of a block, which decide between swapping and recomputing a preempted sequence. Both overwrite the cache, which is
still unused.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from penstock_runtime.engine.continuous.limits import KVSpec, TimedStep
from penstock_runtime.models.decoders.kv_store import BlockStore
from penstock_runtime.models.decoders.packing import PackedBatch, positions_of
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder

MAX_SECONDS = 2.0
"""Time after which no further shape starts, as in the warm-up of dynamic batching."""
CONTEXTS = (16, 192)
"""Positions before the decoded token."""
CHUNKS = (32, 256)
"""Tokens of a prompt chunk."""


def timed_steps(
    decoder: Decoder,
    kv: KVSpec,
    longest: int,
    max_rows: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[TimedStep, ...]:
    """Return timed steps of the shapes that fit the cache, small shapes first, within the time limit."""
    began, steps = clock(), list[TimedStep]()
    for rows, tokens, context in _shapes(kv, longest, max_rows):
        if clock() - began > MAX_SECONDS:
            break
        packed = uniform_step(rows, tokens, context, kv)
        run(decoder, packed)
        start = clock()
        run(decoder, packed)
        decodes = rows if tokens == 1 else 0
        prefill = rows * tokens - decodes
        steps.append(TimedStep(prefill, decodes, rows * (context + tokens), clock() - start))
    return tuple(steps)


def _shapes(kv: KVSpec, longest: int, max_rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield (rows, tokens per row, positions before them)."""
    for chunk in CHUNKS:
        if chunk <= min(longest, kv.tokens):
            yield 1, chunk, 0
    rows = 1
    while True:
        for context in CONTEXTS:
            blocks = -(-(context + 1) // kv.block_tokens) * rows
            if context < longest and blocks <= kv.blocks:
                yield rows, 1, context
        if rows >= max_rows:
            return
        rows = min(2 * rows, max_rows)


def uniform_step(rows: int, tokens: int, context: int, kv: KVSpec) -> PackedBatch:
    """Return a step of `rows` sequences with `tokens` after `context` positions each, over the first blocks of the cache."""
    each = -(-(context + tokens) // kv.block_tokens)
    tables = np.arange(rows * each, dtype=np.int32).reshape(rows, each)
    starts, first = np.arange(rows + 1) * tokens, np.full(rows, context, np.int64)
    return positions_of(np.zeros(rows * tokens, np.int64), tables, first, starts, kv.block_tokens)


def run(decoder: Decoder, packed: PackedBatch) -> None:
    """Run a step and wait for the device."""
    torch.as_tensor(decoder.forward(packed)).sum().item()


_PROMPT = 256
_COPIES = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs in seconds."""

    prefill_token: float
    copied_block: float
    """Time to copy a block in one direction; without host blocks, between device blocks."""


def measure(decoder: Decoder, store: BlockStore, kv: KVSpec, longest: int) -> Costs:
    """Run a prompt twice and copy a block; the cache is overwritten."""
    tokens = min(_PROMPT, longest, kv.tokens)
    packed = uniform_step(1, tokens, 0, kv)
    decoder.forward(packed)
    began = time.perf_counter()
    decoder.forward(packed).sum().item()  # waits for a device
    prefill = (time.perf_counter() - began) / tokens
    began = time.perf_counter()
    for _ in range(_COPIES):
        store.copy_block()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return Costs(prefill, (time.perf_counter() - began) / _COPIES)
