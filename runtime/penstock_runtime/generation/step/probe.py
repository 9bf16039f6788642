"""Backends are chosen by running them: the first whose answers are those of plain arithmetic serves."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch

from penstock_runtime.generation.step.attention.base import (
    AttentionBackend,
    Geometry,
    Heads,
    LayerRule,
)
from penstock_runtime.generation.step.attention.gather import GatherAttention
from penstock_runtime.generation.step.native.attention import NativeAttention
from penstock_runtime.generation.step.packed import Packed, positions_of
from penstock_runtime.models.base import ModelLoadFailed, describe

Make = Callable[[Geometry], AttentionBackend]

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
_COARSE = 5e-2
"""For the 16-bit types: two orders above their rounding, far below any wrong position or head."""


def choose(makers: Mapping[str, Make], wanted: str | None, geometry: Geometry) -> AttentionBackend:
    """Return the backend called `wanted`, else the first of `makers` that passes the probe.

    Raises:
        ModelLoadFailed: none does; the message has each one's reason.
    """
    reasons = []
    for name, make in makers.items():
        if wanted not in {None, name}:
            continue
        try:
            backend = make(geometry)
            wrong = _largest_error(backend, geometry)
        except Exception as error:  # noqa: BLE001  whatever a library raises on hardware that it does not like
            reasons.append(f"{name}: {describe(error)}")
            continue
        if wrong <= _TOLERANCE.get(geometry.dtype, _COARSE):
            return backend
        reasons.append(f"{name}: wrong by {wrong:.2g}")
    raise ModelLoadFailed(
        f"no attention backend called '{wanted or 'any'}' runs here ({'; '.join(reasons) or 'unknown name'})"
    )


def _largest_error(backend: AttentionBackend, geometry: Geometry) -> float:
    """Attend for a decode row and a chunk that continues a prompt, over scattered blocks; compare."""
    heads, block_tokens = geometry.heads, geometry.block_tokens
    device, dtype = geometry.device, geometry.dtype
    before, fed = [2 * block_tokens + 3, block_tokens + 1], [1, 5]
    tables = np.array([[7, 2, 5], [1, 6, 3]], np.int32)
    cache = backend.allocate(8)
    made = torch.Generator().manual_seed(0)
    shapes = [(sum(fed) + sum(before), heads.kv, heads.size)] * 2
    keys, values = (torch.randn(s, generator=made).to(device, dtype) for s in shapes)
    query = torch.randn((sum(fed), heads.query, heads.size), generator=made).to(device, dtype)
    worst, rule = 0.0, LayerRule(heads.size**-0.5, None, block_tokens + 2)
    spans = _spans(before, fed)
    old = np.concatenate([np.arange(a, b) for a, b, _ in spans])
    new = np.concatenate([np.arange(b, c) for _, b, c in spans])
    backend.begin(_packed(tables, [0, 0], before, block_tokens))
    stored = torch.zeros((len(old), heads.query, heads.size)).to(device, dtype)
    backend.attend(cache, stored, keys[old], values[old], rule)
    backend.begin(_packed(tables, before, fed, block_tokens))
    for window in (rule.window, None):
        rule = LayerRule(heads.size**-0.5, None, window)
        got = backend.attend(cache, query, keys[new], values[new], rule)
        wanted = _plain(query, (keys, values), spans, rule, heads)
        worst = max(worst, (got.double() - wanted).abs().max().item())
    return worst if math.isfinite(worst) else math.inf


def _spans(before: list[int], fed: list[int]) -> list[tuple[int, int, int]]:
    spans, at = [], 0
    for old, new in zip(before, fed, strict=True):
        spans.append((at, at + old, at + old + new))
        at += old + new
    return spans


def _packed(tables: np.ndarray, first: list[int], counts: list[int], block_tokens: int) -> Packed:
    starts = np.concatenate([[0], np.cumsum(counts)])
    ids = np.zeros(starts[-1], np.int64)
    return positions_of(ids, tables, np.array(first), starts, block_tokens)


def _plain(
    query: torch.Tensor,
    stored: tuple[torch.Tensor, torch.Tensor],
    spans: list[tuple[int, int, int]],
    rule: LayerRule,
    heads: Heads,
) -> torch.Tensor:
    outs, at = [], 0
    keys, values = stored
    for begin, first, end in spans:
        for position in range(first, end):
            seen = slice(max(begin, position + 1 - (rule.window or position + 1)), position + 1)
            group = heads.query // heads.kv
            key = keys[seen].double().repeat_interleave(group, 1)
            value = values[seen].double().repeat_interleave(group, 1)
            scores = torch.einsum("hd,nhd->hn", query[at].double(), key) * rule.scaling
            outs.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), value).reshape(-1))
            at += 1
    return torch.stack(outs)


MAKERS: Mapping[str, Make] = {
    NativeAttention.name: NativeAttention,
    GatherAttention.name: GatherAttention,
}
