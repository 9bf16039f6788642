"""`OpenVinoDecoder`: an inference request over the KV caches, with a packed step as input."""

from itertools import accumulate
from typing import Any

import numpy as np
import openvino as ov
import torch
from numpy.typing import NDArray
from typing_extensions import override

from penstock_runtime.models.decoders.openvino.graph import BLOCK_TOKENS, INPUTS, PRECISIONS, shared
from penstock_runtime.models.decoders.packing import PackedBatch
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder


class OpenVinoDecoder(Decoder):
    """A decoder whose forward is one call of OpenVINO's CPU plugin, in the dtype of the caches."""

    captures = 0

    def __init__(self, model: ov.Model, caches: list[torch.Tensor]) -> None:
        precision = PRECISIONS[caches[0].dtype]
        # No pinning: it would pin the first thread of every pod on a node to the same core.
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

    @override
    def forward(self, packed: PackedBatch) -> NDArray[np.float32]:
        # the next call overwrites the buffer of the logits
        blocks = [-(-context // BLOCK_TOKENS) for context in packed.contexts.tolist()]
        named = [table[:count] for table, count in zip(packed.tables, blocks, strict=True)]
        self._set_input("ids", packed.ids)
        self._set_input("positions", packed.positions)
        self._set_input("picked", packed.last)
        self._set_input("past_lens", packed.first)
        self._set_input("subsequence_begins", packed.starts)
        self._set_input("block_indices", np.concatenate(named))
        self._set_input("block_indices_begins", np.array([0, *accumulate(blocks)]))
        self._set_input("max_context_len", packed.contexts.max())
        logits: NDArray[np.float32]
        (logits,) = self._request.infer(share_outputs=True).values()
        return logits[:, 0]

    def _set_input(self, name: str, values: np.ndarray) -> None:
        """Write an input to its bound array; bind a new array if the shape changes."""
        bound = self._bound.get(name)
        if bound is None or bound.shape != values.shape:
            bound = self._bound[name] = np.empty(values.shape, INPUTS.get(name, np.int32))
            self._request.set_tensor(name, ov.Tensor(bound, shared_memory=True))
        bound[...] = values
