"""Minimal memory reads of a decode step and operations of a prompt, and the rates that measured steps reached by them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter as now

import torch
from safetensors import safe_open

from penstock_runtime.engine.continuous.messages import StepReport

COPIED_BYTES = 1 << 30
REPEATS = 10
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Footprint:
    """Bytes that a model's decode step reads."""

    weights: int
    """Bytes of weights per step, without an untied embedding, of which a step reads only a few rows."""
    kv_token: int
    """Bytes of keys and values of one position over all layers."""

    def read(self, kv_tokens: int) -> int:
        """Return the bytes that a step reads if its rows attend to `kv_tokens` positions in total."""
        return self.weights + kv_tokens * self.kv_token


def footprint(folder: Path, dtype: torch.dtype) -> Footprint:
    """Return the footprint of the Llama in `folder` in `dtype`."""
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
    """Figures of steps in which all rows decode one token."""

    rows: int
    steps: int
    median_seconds: float
    """Time from the end of the previous step, including planning and sampling."""
    gb_per_second: float
    """Minimal reads of all steps per second."""


def decoding(reports: Iterable[StepReport], rows: int, read: Footprint) -> Decoding | None:
    """Return the figures of the steps in `reports` in which only `rows` decode, or None if there are none."""
    steps = [
        report for report in reports if (report.prefill_tokens, report.decode_rows) == (0, rows)
    ]
    if not steps:
        return None
    took = [report.seconds + report.idle_seconds for report in steps]
    bytes_read = sum(read.read(report.kv_tokens) for report in steps)
    return Decoding(rows, len(steps), median(took), bytes_read / sum(took) / 1e9)


def prompt_operations(folder: Path, tokens: int) -> float:
    """Return the floating-point operations of a prompt of `tokens` in the Llama in `folder`, causal attention included.

    The head is left out: it computes one position per prompt.
    """
    config = json.loads((folder / "config.json").read_text())
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    head_size = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries = config["num_attention_heads"] * head_size
    keys = config["num_key_value_heads"] * head_size
    weights = 2 * hidden * (queries + keys) + 3 * hidden * config["intermediate_size"]
    return float(layers * (2 * tokens * weights + 2 * tokens * tokens * queries))


def matrix_rate(device: torch.device, dtype: torch.dtype, size: int = 8192) -> float:
    """Return the floating-point operations per second of a product of two square matrices, the best of some repeats."""
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    left @ right
    return 2 * size**3 / min(_timed(lambda: left @ right, device) for _ in range(REPEATS))


def bandwidth(device: torch.device, size: int = COPIED_BYTES) -> float:
    """Return the GB/s that a copy of `size` bytes reads and writes on `device`, the best of some repeats."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    best = min(_timed(lambda: target.copy_(source), device) for _ in range(REPEATS))
    return 2 * size / best / 1e9


def _timed(call: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    began = now()
    call()
    _wait(device)
    return now() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
