"""Before the first request: how long steps of many shapes take here, so that a fixed cap hides no slope.

One row, two, four .. as many as may ever run decode, over short and longer contexts; a chunk of a prompt by itself. The
first run of a shape is not timed. What lies in the cache is overwritten; no request is in it yet.

After the check and before the first request: what a prompt's token and a block's copy cost here.

Both decide between swapping a preempted sequence and computing it again; running a prompt also pays for
what only a first run pays, so that no request does.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from penstock_runtime.engine.continuous.limits import KVSpec, TimedStep
from penstock_runtime.models.decoders.kv_store import KvStore
from penstock_runtime.models.decoders.packing import PackedBatch, positions_of
from penstock_runtime.models.decoders.transformers_decoder import Decoder

MAX_SECONDS = 2.0
"""No shape is begun later: as for one-shot batches."""
CONTEXTS = (16, 192)
"""Positions before the token that is decoded."""
CHUNKS = (32, 256)
"""Tokens of a prompt."""


def timed_steps(
    decoder: Decoder,
    kv: KVSpec,
    longest: int,
    most_rows: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[TimedStep, ...]:
    """Return steps of the shapes that fit the cache, small ones first, as many as there is time for."""
    began, found = clock(), list[TimedStep]()
    for rows, tokens, context in _shapes(kv, longest, most_rows):
        if clock() - began > MAX_SECONDS:
            break
        packed = fed(rows, tokens, context, kv)
        run(decoder, packed)
        start = clock()
        run(decoder, packed)
        decodes = rows if tokens == 1 else 0
        prefill = rows * tokens - decodes
        found.append(TimedStep(prefill, decodes, rows * (context + tokens), clock() - start))
    return tuple(found)


def _shapes(kv: KVSpec, longest: int, most_rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield (rows, tokens a row, positions before them)."""
    for chunk in CHUNKS:
        if chunk <= min(longest, kv.tokens):
            yield 1, chunk, 0
    rows = 1
    while True:
        for context in CONTEXTS:
            held = -(-(context + 1) // kv.block_tokens) * rows
            if context < longest and held <= kv.blocks:
                yield rows, 1, context
        if rows >= most_rows:
            return
        rows = min(2 * rows, most_rows)


def fed(rows: int, tokens: int, context: int, kv: KVSpec) -> PackedBatch:
    """Return a step of `rows` sequences, each of which feeds so many tokens behind a context, over the cache's first blocks."""
    each = -(-(context + tokens) // kv.block_tokens)
    tables = np.arange(rows * each, dtype=np.int32).reshape(rows, each)
    starts, first = np.arange(rows + 1) * tokens, np.full(rows, context, np.int64)
    return positions_of(np.zeros(rows * tokens, np.int64), tables, first, starts, kv.block_tokens)


def run(decoder: Decoder, packed: PackedBatch) -> None:
    """Compute, and wait for the device."""
    torch.as_tensor(decoder.forward(packed)).sum().item()


_PROMPT = 256
_COPIES = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds."""

    prefill_token: float
    copied_block: float
    """One way; without blocks on the host, between two of the device's."""


def measure(decoder: Decoder, store: KvStore, kv: KVSpec, longest: int) -> Costs:
    """Run a prompt twice and copy a block; what lies in the cache is overwritten."""
    tokens = min(_PROMPT, longest, kv.tokens)
    packed = fed(1, tokens, 0, kv)
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
