"""One inference request over the caches of the store, and a packed step as its inputs."""

from itertools import accumulate
from typing import Any

import numpy as np
import openvino as ov
import torch
from numpy.typing import NDArray

from penstock_runtime.models.decoders.openvino.graph import BLOCK_TOKENS, INPUTS, PRECISIONS, shared
from penstock_runtime.models.decoders.packing import PackedBatch


class OpenVinoDecoder:
    """A `Decoder` whose whole forward is one call of OpenVINO's CPU plugin, in the dtype of the caches."""

    captures = 0

    def __init__(self, model: ov.Model, caches: list[torch.Tensor]) -> None:
        precision = PRECISIONS[caches[0].dtype]
        # Pinned, the first thread of every pod on a node would compute on the same core.
        compiled = ov.Core().compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": precision,
                "KV_CACHE_PRECISION": precision,
                "INFERENCE_NUM_THREADS": str(torch.get_num_threads()),
                "NUM_STREAMS": "1",
                "ENABLE_CPU_PINNING": "NO",
            },
        )
        self._request: Any = compiled.create_infer_request()
        self._caches = caches
        self._bound: dict[str, np.ndarray] = {}
        for index, cache in enumerate(caches):
            for kind, part in zip(("key", "value"), cache.chunk(2), strict=True):
                self._request.set_tensor(f"{kind}_cache.{index}", shared(part))

    def forward(self, packed: PackedBatch) -> NDArray[np.float32]:
        """As `Decoder.forward`. The logits lie in a buffer that the next call overwrites."""
        blocks = [-(-context // BLOCK_TOKENS) for context in packed.contexts.tolist()]
        named = [table[:count] for table, count in zip(packed.tables, blocks, strict=True)]
        self._give("ids", packed.ids)
        self._give("positions", packed.positions)
        self._give("picked", packed.last)
        self._give("past_lens", packed.first)
        self._give("subsequence_begins", packed.starts)
        self._give("block_indices", np.concatenate(named))
        self._give("block_indices_begins", np.array([0, *accumulate(blocks)]))
        self._give("max_context_len", packed.contexts.max())
        logits: NDArray[np.float32]
        (logits,) = self._request.infer(share_outputs=True).values()
        return logits[:, 0]

    def _give(self, name: str, given: np.ndarray) -> None:
        """Write an input where it is bound; bind another array only where the shape is another."""
        held = self._bound.get(name)
        if held is None or held.shape != given.shape:
            held = self._bound[name] = np.empty(given.shape, INPUTS.get(name, np.int32))
            self._request.set_tensor(name, ov.Tensor(held, shared_memory=True))
        held[...] = given
