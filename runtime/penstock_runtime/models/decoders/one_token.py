"""Batch invariance: every token in a forward of its own, so that its bits depend on its own sequence alone."""

import numpy as np
import torch

from penstock_runtime.models.decoders.packing import PackedBatch, positions_of
from penstock_runtime.models.decoders.transformers_decoder import Decoder


class OneTokenDecoder:
    """A `Decoder` that feeds another one token at a time.

    The kernels of matrix products and of attention depend on the number of rows, and so does the order of their sums. A
    forward of one token has the same shapes whatever else the step holds; it costs as much as a step of one sequence.
    """

    captures = 0

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def forward(self, packed: PackedBatch) -> torch.Tensor:
        """As `Decoder.forward`."""
        wanted = set(packed.last.tolist())
        logits = dict[int, torch.Tensor]()
        for token, row in enumerate(packed.owners.tolist()):
            alone = _alone(packed, token, row)
            if token in wanted:
                logits[token] = torch.as_tensor(self._decoder.forward(alone))[0].clone()
            else:
                alone.last = alone.last[:0]
                self._decoder.forward(alone)
        if not wanted:
            return torch.empty(0)
        return torch.stack([logits[token] for token in packed.last.tolist()])


def _alone(packed: PackedBatch, token: int, row: int) -> PackedBatch:
    """Return the step that feeds one of the tokens of `packed`."""
    return positions_of(
        packed.ids[token : token + 1],
        packed.tables[row : row + 1],
        packed.positions[token : token + 1],
        np.array([0, 1]),
        packed.block_tokens,
    )
