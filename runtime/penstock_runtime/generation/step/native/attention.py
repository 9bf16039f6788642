"""The C attention alone: an `AttentionBackend` for any model on the CPU, and the batch it is told."""

import ctypes

import numpy as np
import torch

from penstock_runtime.generation.step.attention.base import Geometry, Heads, LayerRule
from penstock_runtime.generation.step.native.abi import UNITS, Batch, Op, function, pointer
from penstock_runtime.generation.step.native.build import library
from penstock_runtime.generation.step.packed import Packed
from penstock_runtime.native import NoNativeCode

_LONGEST_AT_FIRST = 1024
_TALL = 4
"""As decoder.c's `TALL`."""
_MOST_QUERIES = 256
"""As decoder.c's `MOST_QUERIES`."""


class NativeBatch(Batch):
    """`Batch`, filled from a packed step."""

    def fill(self, packed: Packed) -> list[object]:
        """Point at the arrays of `packed`; they live as long as what is returned."""
        tables = np.ascontiguousarray(packed.tables)
        self.tokens, self.picks = packed.tokens, len(packed.last)
        self.table_stride = tables.shape[1]
        self.threads = torch.get_num_threads()
        self.ids, self.positions = packed.ids.ctypes.data, packed.positions.ctypes.data
        self.slots, self.owners = packed.slots.ctypes.data, packed.owners.ctypes.data
        self.starts = packed.starts.ctypes.data
        self.picked, self.tables = packed.last.ctypes.data, tables.ctypes.data
        return [tables, packed]


def batch_of(heads: Heads, block_tokens: int, longest: int) -> tuple[NativeBatch, torch.Tensor]:
    """Return a batch with room for scores over so many positions and for answers, and that room, to be kept."""
    queries = max(heads.query, _TALL * heads.query // heads.kv)
    per_thread = queries * (longest + 2 * block_tokens + heads.size)
    scores = torch.empty((torch.get_num_threads(), per_thread))
    batch = NativeBatch(
        heads=heads.query,
        kv_heads=heads.kv,
        size=heads.size,
        block_tokens=block_tokens,
        scores_stride=per_thread,
        scores=scores.data_ptr(),
    )
    return batch, scores


class NativeAttention:
    """Keys of a block lie as [kv, size, position], values as [kv, position, size]; in bfloat16 by pairs (units.h)."""

    name = "native"

    def __init__(self, geometry: Geometry) -> None:
        heads, block_tokens, dtype, device = (
            geometry.heads,
            geometry.block_tokens,
            geometry.dtype,
            geometry.device,
        )
        if dtype not in UNITS or device.type != "cpu":
            raise NoNativeCode(
                f"it computes float32 and bfloat16 on a CPU, not {dtype} on {device.type}"
            )
        if heads.size % 8 or block_tokens % 8:
            raise NoNativeCode(
                f"head size {heads.size} or block {block_tokens} is no multiple of 8"
            )
        if _TALL * heads.query // heads.kv > _MOST_QUERIES:
            raise NoNativeCode(f"{heads.query} heads on {heads.kv} are more than it groups")
        self.library = library()
        self._attend = function(self.library, "attend", dtype)
        self._attend.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._dtype = dtype
        self._heads = heads
        self._block_tokens = block_tokens
        self._longest = _LONGEST_AT_FIRST
        self._batch, self._scores = batch_of(heads, block_tokens, self._longest)
        self._held: list[object] = []

    def allocate(self, blocks: int) -> torch.Tensor:
        """As `AttentionBackend.allocate`."""
        heads = self._heads
        shape = (2 * blocks, heads.kv * heads.size * self._block_tokens)
        return torch.zeros(shape, dtype=self._dtype)

    def begin(self, packed: Packed) -> None:
        """As `AttentionBackend.begin`."""
        longest = int(packed.contexts.max())
        if longest > self._longest:
            self._longest = 2 * longest
            self._batch, self._scores = batch_of(self._heads, self._block_tokens, self._longest)
        self._held = self._batch.fill(packed)

    def attend(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        rule: LayerRule,
    ) -> torch.Tensor:
        """As `AttentionBackend.attend`."""
        heads, tokens, dtype = self._heads, len(query), self._dtype
        merged = torch.cat([query, key, value], dim=1).float().contiguous()
        out = torch.empty((tokens, heads.query * heads.size), dtype=dtype)
        op = Op(
            in_stride=(heads.query + 2 * heads.kv) * heads.size,
            out_stride=heads.query * heads.size // UNITS[dtype],
            in_=pointer(merged),
            out=pointer(out, dtype),
            scale=rule.scaling,
            softcap=rule.softcap or 0.0,
            window=rule.window or 0,
            keys=pointer(cache, dtype),
            values=pointer(cache[len(cache) // 2 :], dtype),
        )
        self._attend(ctypes.addressof(op), ctypes.addressof(self._batch))
        return out
