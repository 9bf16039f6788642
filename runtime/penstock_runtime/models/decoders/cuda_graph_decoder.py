"""Steps of one token a row, recorded once a shape and replayed: on a GPU their kernels are shorter than their launches.

Rows and block tables are padded to a few shapes (`shapes`). Padding writes to the scratch block, which the ledger
does not know and no row reads. A shape is recorded at its first sight, with nothing but padding in it; then the replay of
the step at hand is compared with the plain decoder, which has the last word in that step. Where recording fails, or a
replay differs, the plain decoder runs every step from then on.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
import torch

from penstock_runtime.engine.model import describe
from penstock_runtime.models.decoders.attention.gather import GatherAttention
from penstock_runtime.models.decoders.graph_shapes import GraphShape, padded
from penstock_runtime.models.decoders.packing import PackedBatch
from penstock_runtime.models.decoders.self_check import difference, tolerance
from penstock_runtime.models.decoders.transformers_decoder import GenericDecoder
from penstock_runtime.models.device.cuda_graphs import Recorder, Replay

_log = logging.getLogger(__name__)

MAX_GRAPHS = 64
"""The one that was not replayed for the longest time makes room for the next."""
MAX_GATHERED = 2
"""A step that gathers more than so many times what a layer's cache holds is not recorded: memory is set apart for so much."""


class CudaGraphDecoder:
    """A `Decoder` around the plain one; chunks of prompts, and whatever has no shape, go to that."""

    def __init__(
        self,
        plain: GenericDecoder,
        attention: GatherAttention,
        recorder: Recorder,
        scratch: int,
        logits: torch.Tensor,
    ) -> None:
        """`scratch` is the block behind the ledger's; all recordings write to `logits` ([most rows, vocabulary])."""
        self.captures = 0
        self._plain = plain
        self._attention = attention
        self._recorder: Recorder | None = recorder
        self._scratch = scratch
        self._logits = logits
        self._replays: OrderedDict[GraphShape, Replay] = OrderedDict()

    @torch.inference_mode()
    def forward(self, packed: PackedBatch) -> torch.Tensor:
        """As `Decoder.forward`. The logits lie in a buffer that the next call overwrites."""
        shape = self._shape(packed)
        if self._recorder is None or shape is None:
            return self._plain.forward(packed)
        replay = self._replays.get(shape)
        if replay is None:
            return self._first(self._recorder, packed, shape)
        self._replays.move_to_end(shape)
        return self._replayed(replay, packed, shape)

    def _shape(self, packed: PackedBatch) -> GraphShape | None:
        if packed.tokens != packed.rows:
            return None
        shape = padded(packed.rows, packed.tables.shape[1])
        fits = shape.rows * shape.blocks <= MAX_GATHERED * self._scratch
        return shape if fits and shape.rows <= len(self._logits) else None

    def _first(self, recorder: Recorder, packed: PackedBatch, shape: GraphShape) -> torch.Tensor:
        """Record `shape`, and compare; the plain decoder runs last, so that the step's keys and values are its own."""
        self.captures += 1
        try:
            replay = recorder.record(self._padded_step, [self._inputs(shape)])
            got = self._replayed(replay, packed, shape)
        except RuntimeError as error:
            self._give_up(describe(error))
            return self._plain.forward(packed)
        wanted = self._plain.forward(packed)
        wrong = difference(got, wanted)
        if wrong <= tolerance(wanted.dtype):
            self._keep(shape, replay)
        else:
            self._give_up(f"a replay of {shape} differs by {wrong:.2g} of the largest logit")
        return wanted

    def _keep(self, shape: GraphShape, replay: Replay) -> None:
        self._replays[shape] = replay
        if len(self._replays) > MAX_GRAPHS:
            self._replays.popitem(last=False)

    def _give_up(self, reason: str) -> None:
        _log.warning("generation runs without CUDA graphs: %s", reason)
        self._recorder = None
        self._replays.clear()

    def _padded_step(self, tensors: list[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """What is recorded: `tensors` are those of `_inputs`, and none is looked at."""
        ids, positions, tables = tensors[0].long().tensor_split((1, 2), 1)
        self._attention.begin_decode(positions[:, 0], tables)
        found = self._plain.logits(ids[:, 0], positions[:, 0])
        if found.dtype != self._logits.dtype:
            raise RuntimeError(f"logits are {found.dtype}, not {self._logits.dtype}")
        return {"logits": self._logits[: len(found)].copy_(found)}

    def _inputs(self, shape: GraphShape, packed: PackedBatch | None = None) -> torch.Tensor:
        """Return [rows, 2 + blocks] of int32: id, position and table of each row; all of it padding without `packed`."""
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
