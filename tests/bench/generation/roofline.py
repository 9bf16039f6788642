"""What a decode step must read at least, and what share of the device's memory bandwidth its steps reached by that."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from safetensors import safe_open

from penstock_runtime.engine.continuous.messages import StepReport
from tests.bench.generation.clock import now

COPIED_BYTES = 1 << 30
REPEATS = 10
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Footprint:
    """Bytes."""

    weights: int
    """Read by each step. Of an embedding that is not the head as well, a step reads a few rows: not counted."""
    kv_token: int
    """Keys and values of one position, all layers."""

    def read(self, kv_tokens: int) -> int:
        """Return what a step reads whose rows attend to so many positions together."""
        return self.weights + kv_tokens * self.kv_token


def footprint(folder: Path, dtype: torch.dtype) -> Footprint:
    """Return what the Llama in `folder` reads in `dtype`."""
    sizes: dict[str, int] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                shape = opened.get_slice(name).get_shape()
                sizes[name] = torch.Size(shape).numel()
    if HEAD in sizes:
        del sizes[EMBEDDING]
    config = json.loads((folder / "config.json").read_text())
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    kv = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head_size
    return Footprint(sum(sizes.values()) * dtype.itemsize, kv * dtype.itemsize)


@dataclass(frozen=True)
class Decoding:
    """Steps in which all rows decode one token."""

    rows: int
    steps: int
    median_seconds: float
    """From the end of the step before to a step's own: what planning and sampling take is in it."""
    gb_per_second: float
    """Read at least, by all of them."""


def decoding(reports: Iterable[StepReport], rows: int, read: Footprint) -> Decoding | None:
    """Return how the steps of `reports` went in which `rows` decode and nothing else is done; None: there were none."""
    steps = [one for one in reports if (one.prefill_tokens, one.decode_rows) == (0, rows)]
    if not steps:
        return None
    took = [one.seconds + one.idle_seconds for one in steps]
    bytes_read = sum(read.read(one.kv_tokens) for one in steps)
    return Decoding(rows, len(steps), median(took), bytes_read / sum(took) / 1e9)


def bandwidth(device: torch.device, size: int = COPIED_BYTES) -> float:
    """Return the GB/s that a copy of `size` bytes reads and writes on `device`, the best of some repeats."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    best = min(_copied(source, target) for _ in range(REPEATS))
    return 2 * size / best / 1e9


def _copied(source: torch.Tensor, target: torch.Tensor) -> float:
    _wait(source.device)
    began = now()
    target.copy_(source)
    _wait(source.device)
    return now() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
