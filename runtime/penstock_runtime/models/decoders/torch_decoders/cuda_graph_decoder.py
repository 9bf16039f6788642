"""`CudaGraphDecoder`: captures decode steps, which are launch-bound, once per shape and replays them.

Rows and block tables are padded to a few shapes, each of which is captured once. Padding writes to the scratch block,
which the block manager does not use and no row reads. A shape is captured at its first occurrence, with padding only;
then the replay of the current step is compared with the plain decoder, whose result is used in that step. If a
capture fails, or a replay differs, the plain decoder runs every further step.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from typing_extensions import override

from penstock_runtime.engine.model import describe
from penstock_runtime.models.decoders.attention.gather import GatherAttention
from penstock_runtime.models.decoders.packing import PackedBatch
from penstock_runtime.models.decoders.torch_decoders.self_check import difference, tolerance
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import (
    Decoder,
    GenericDecoder,
)
from penstock_runtime.models.device.cuda_graphs import Recorder, Replay

_log = logging.getLogger(__name__)

MAX_GRAPHS = 64
"""Maximum number of captures; the least recently replayed one is evicted."""
MAX_GATHERED = 2
"""Maximum size of what a captured step gathers, in layers of the cache; memory is reserved for it."""
MAX_ROWS = 256
"""Rows above which kernel time hides launch overhead."""
MIN_BLOCKS = 8
"""Minimum blocks of a padded table; fewer are not faster."""


class GraphShape(NamedTuple):
    """Shape of a padded step."""

    rows: int
    blocks: int
    """Blocks of each row's table."""


def padded_rows(rows: int) -> int:
    """Return 1, 2, 4, 8, then the next multiple of 8 up to 64, then of 16."""
    if rows <= 8:
        return 1 << (rows - 1).bit_length()
    unit = 8 if rows <= 64 else 16
    return -(-rows // unit) * unit


def padded(rows: int, blocks: int) -> GraphShape:
    """Return the smallest shape for `rows` whose longest table has `blocks`, rounded up to a power of two."""
    return GraphShape(padded_rows(rows), max(MIN_BLOCKS, 1 << (blocks - 1).bit_length()))


class CudaGraphDecoder(Decoder):
    """A decoder that replays captures of a plain decoder, which itself runs prompt chunks and steps without a shape."""

    def __init__(
        self,
        plain: GenericDecoder,
        attention: GatherAttention,
        recorder: Recorder,
        scratch: int,
        logits: torch.Tensor,
    ) -> None:
        """`scratch` is the block after the block manager's; all captures write to `logits` ([max rows, vocabulary])."""
        self.captures = 0
        self._plain = plain
        self._attention = attention
        self._recorder: Recorder | None = recorder
        self._scratch = scratch
        self._logits = logits
        self._replays: OrderedDict[GraphShape, Replay] = OrderedDict()

    @override
    @torch.inference_mode()
    def forward(self, packed: PackedBatch) -> torch.Tensor:
        # the next call overwrites the buffer of the logits
        shape = self._shape(packed)
        if self._recorder is None or shape is None:
            return self._plain.forward(packed)
        replay = self._replays.get(shape)
        if replay is None:
            return self._capture(self._recorder, packed, shape)
        self._replays.move_to_end(shape)
        return self._replayed(replay, packed, shape)

    def _shape(self, packed: PackedBatch) -> GraphShape | None:
        if packed.tokens != packed.rows:
            return None
        shape = padded(packed.rows, packed.tables.shape[1])
        fits = shape.rows * shape.blocks <= MAX_GATHERED * self._scratch
        return shape if fits and shape.rows <= len(self._logits) else None

    def _capture(self, recorder: Recorder, packed: PackedBatch, shape: GraphShape) -> torch.Tensor:
        """Capture `shape` and compare; the plain decoder runs last, so that the cache has its keys and values."""
        self.captures += 1
        try:
            replay = recorder.record(self._padded_step, [self._inputs(shape)])
            got = self._replayed(replay, packed, shape)
        except RuntimeError as failure:
            self._disable(describe(failure))
            return self._plain.forward(packed)
        expected = self._plain.forward(packed)
        error = difference(got, expected)
        if error <= tolerance(expected.dtype):
            self._keep(shape, replay)
        else:
            self._disable(f"a replay of {shape} differs by {error:.2g} of the largest logit")
        return expected

    def _keep(self, shape: GraphShape, replay: Replay) -> None:
        self._replays[shape] = replay
        if len(self._replays) > MAX_GRAPHS:
            self._replays.popitem(last=False)

    def _disable(self, reason: str) -> None:
        _log.warning("generation runs without CUDA graphs: %s", reason)
        self._recorder = None
        self._replays.clear()

    def _padded_step(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Run the step to capture on the tensors of `_inputs`, without copying a value to the host."""
        ids, positions, tables = tensors[0].long().tensor_split((1, 2), 1)
        self._attention.begin_decode(positions[:, 0], tables)
        logits = self._plain.logits(ids[:, 0], positions[:, 0])
        if logits.dtype != self._logits.dtype:
            raise RuntimeError(f"logits are {logits.dtype}, not {self._logits.dtype}")
        return {"logits": self._logits[: len(logits)].copy_(logits)}

    def _inputs(self, shape: GraphShape, packed: PackedBatch | None = None) -> torch.Tensor:
        """Return [rows, 2 + blocks] of int32: id, position and table of each row; without `packed` only padding."""
        inputs = np.full((shape.rows, 2 + shape.blocks), self._scratch, np.int32)
        inputs[:, :2] = 0
        if packed is not None:
            rows, blocks = packed.tables.shape
            inputs[:rows, 0], inputs[:rows, 1] = packed.ids, packed.positions
            inputs[:rows, 2 : 2 + blocks] = packed.tables
        return torch.from_numpy(inputs).to(self._logits.device)

    def _replayed(self, replay: Replay, packed: PackedBatch, shape: GraphShape) -> torch.Tensor:
        logits = replay([self._inputs(shape, packed)])["logits"]
        if np.array_equal(packed.last, packed.starts[:-1]):
            return logits[: packed.rows]
        return logits[torch.from_numpy(packed.last).to(logits.device)]
