"""`OneTokenDecoder`: batch invariance by one forward pass per token."""

import numpy as np
import torch
from typing_extensions import override

from penstock_runtime.models.decoders.packing import PackedBatch, positions_of
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder


class OneTokenDecoder(Decoder):
    """A decoder that runs another decoder on one token at a time.

    The kernels of matrix products and attention, and so their order of summation, depend on the number of rows. A
    forward of one token has the same shapes in every step; it costs as much as a step of one sequence.
    """

    captures = 0

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @override
    def forward(self, packed: PackedBatch) -> torch.Tensor:
        sampling = set(packed.last.tolist())
        logits = dict[int, torch.Tensor]()
        for token, row in enumerate(packed.owners.tolist()):
            alone = _alone(packed, token, row)
            if token in sampling:
                logits[token] = torch.as_tensor(self._decoder.forward(alone))[0].clone()
            else:
                alone.last = alone.last[:0]
                self._decoder.forward(alone)
        if not sampling:
            return torch.empty(0)
        return torch.stack([logits[token] for token in packed.last.tolist()])


def _alone(packed: PackedBatch, token: int, row: int) -> PackedBatch:
    """Return the step that processes one token of `packed`."""
    return positions_of(
        packed.ids[token : token + 1],
        packed.tables[row : row + 1],
        packed.positions[token : token + 1],
        np.array([0, 1]),
        packed.block_tokens,
    )
