"""`GatherAttention`: gathers each row's keys and values from their blocks and calls SDPA."""

from dataclasses import dataclass, field

import numpy as np
import torch
from typing_extensions import override

from penstock_runtime.models.decoders.attention.base import AttentionBackend, Geometry, LayerRule
from penstock_runtime.models.decoders.attention.decode import DecodeRows, decode_rows
from penstock_runtime.models.decoders.attention.sdpa import Masks, attend
from penstock_runtime.models.decoders.packing import PackedBatch


@dataclass(slots=True)
class _Part:
    """Rows of one attention call: all decode rows padded to the longest, or one chunk of a prompt."""

    tokens: slice | torch.Tensor
    """Indices of the rows' tokens in the step."""
    rows: int
    queries: int
    """Queries per row."""
    slots: torch.Tensor
    """[rows, longest]: slots of the keys."""
    at: torch.Tensor
    """[rows, queries]: positions of the queries."""
    begins: bool
    """Whether it is one row's chunk from position 0 on, so that the keys are the queries' own and a mask is not needed."""
    _masks: Masks | None = field(default=None, init=False)

    def mask(self, rule: LayerRule) -> torch.Tensor | None:
        """Return the mask [rows, 1, queries, longest] of a layer: True where a query attends; None: plainly causal.

        Positions ahead of a query are future tokens or padding.
        """
        unwindowed = rule.window is None or rule.window >= self.queries
        if self.begins and unwindowed and rule.softcap is None:
            return None
        if self._masks is None:
            keys = torch.arange(self.slots.shape[1], device=self.at.device)
            self._masks = Masks(self.at[:, :, None] - keys)
        return self._masks.of(rule.window)[:, None]


class GatherAttention(AttentionBackend):
    """Attention for every dtype, device and shape that torch supports."""

    name = "gather-sdpa"

    def __init__(self, geometry: Geometry) -> None:
        self._heads = geometry.heads
        self._block_tokens = geometry.block_tokens
        self._dtype = geometry.dtype
        self._device = geometry.device
        self._parts: list[_Part] = []
        self._decode: DecodeRows | None = None
        self._slots = torch.empty(0, dtype=torch.int64)

    @override
    def allocate(self, blocks: int) -> torch.Tensor:
        shape = (2 * blocks, self._block_tokens, self._heads.kv, self._heads.size)
        return torch.zeros(shape, dtype=self._dtype, device=self._device)

    @override
    def begin(self, packed: PackedBatch) -> None:
        self._decode = None
        self._slots = torch.from_numpy(packed.slots).to(self._device)
        counts = np.diff(packed.starts)
        decodes = np.flatnonzero(counts == 1)
        self._parts = [self._part(packed, decodes)] if len(decodes) else []
        for row in np.flatnonzero(counts > 1):
            self._parts.append(self._part(packed, np.array([row])))

    def begin_decode(self, positions: torch.Tensor, tables: torch.Tensor) -> None:
        """Prepare a step of one token per row, at `positions` ([R]) of sequences with `tables` ([R, widest]).

        Both are int64 on the device. No value is copied to the host, so a CUDA graph can capture the step.
        """
        self._decode = decode_rows(positions, tables, self._block_tokens)

    def _part(self, packed: PackedBatch, rows: np.ndarray) -> _Part:
        contexts = packed.contexts[rows]
        queries = int(packed.starts[rows[0] + 1] - packed.starts[rows[0]])
        keys = np.arange(contexts.max())
        blocks = packed.tables[np.ix_(rows, keys // self._block_tokens)].astype(np.int64)
        slots = blocks * self._block_tokens + keys % self._block_tokens
        # Padding refers to the row's first slot: another row's could contain NaN, and 0 times NaN is NaN.
        slots = np.where(keys < contexts[:, None], slots, slots[:, :1])
        at = contexts[:, None] - queries + np.arange(queries)
        tokens = packed.starts[rows][:, None] + np.arange(queries)
        return _Part(
            tokens=torch.from_numpy(tokens.reshape(-1)).to(self._device),
            rows=len(rows),
            queries=queries,
            slots=torch.from_numpy(slots).to(self._device),
            at=torch.from_numpy(at).to(self._device),
            begins=len(rows) == 1 and int(packed.contexts[rows[0]]) == queries,
        )

    @override
    def attend(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        rule: LayerRule,
    ) -> torch.Tensor:
        heads = self._heads
        keys, values = cache.view(2, -1, heads.kv, heads.size).unbind(0)
        if self._decode is not None:
            keys[self._decode.new], values[self._decode.new] = key, value
            return self._decode.attend(query, keys, values, rule).view(len(query), -1)
        keys[self._slots], values[self._slots] = key, value
        out = torch.empty_like(query)
        for part in self._parts:
            shape = (part.rows, part.queries, heads.query, heads.size)
            queries = query[part.tokens].view(shape).transpose(1, 2)
            gathered = (keys[part.slots].transpose(1, 2), values[part.slots].transpose(1, 2))
            attended = attend(queries, *gathered, part.mask(rule), rule)
            out[part.tokens] = attended.transpose(1, 2).reshape(-1, heads.query, heads.size)
        return out.view(len(out), -1)
