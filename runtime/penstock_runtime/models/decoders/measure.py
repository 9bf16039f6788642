"""After the check and before the first request: what a prompt's token and a block's copy cost here.

Both decide between swapping a preempted sequence and computing it again; running a prompt also pays for
what only a first run pays, so that no request does.
"""

import time
from dataclasses import dataclass

import torch

from penstock_runtime.engine.continuous.limits import KVSpec
from penstock_runtime.models.decoders.kv_store import Store
from penstock_runtime.models.decoders.transformers_decoder import Decoder
from penstock_runtime.models.decoders.warm_up import fed

_PROMPT = 256
_COPIES = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds."""

    prefill_token: float
    copied_block: float
    """One way; without blocks on the host, between two of the device's."""


def measure(decoder: Decoder, store: Store, kv: KVSpec, longest: int) -> Costs:
    """Run a prompt twice and copy a block; what lies in the cache is overwritten."""
    tokens = min(_PROMPT, longest, kv.tokens)
    packed = fed(1, tokens, 0, kv)
    decoder.forward(packed)
    began = time.perf_counter()
    decoder.forward(packed).sum().item()  # waits for a device
    prefill = (time.perf_counter() - began) / tokens
    began = time.perf_counter()
    for _ in range(_COPIES):
        store.copy_one()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return Costs(prefill, (time.perf_counter() - began) / _COPIES)
