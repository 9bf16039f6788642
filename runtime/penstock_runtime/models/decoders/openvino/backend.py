"""`OpenVinoBackend`: float32 or bfloat16 on a CPU, for the architectures that `extract_parts` supports."""

from collections.abc import Iterator

import openvino as ov
import torch
from transformers import PreTrainedModel
from typing_extensions import override

from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.decoders.attention.base import Geometry
from penstock_runtime.models.decoders.backends.registry import ComputeBackend
from penstock_runtime.models.decoders.model_parts import UnsupportedArchitecture, extract_parts
from penstock_runtime.models.decoders.openvino.decoder import OpenVinoDecoder
from penstock_runtime.models.decoders.openvino.graph import BLOCK_TOKENS, PRECISIONS, build
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder


def computes_bfloat16() -> bool:
    """Return whether this processor has bfloat16 instructions that OpenVINO uses."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _check_support(geometry: Geometry) -> None:
    if geometry.dtype not in PRECISIONS or geometry.device.type != "cpu":
        dtype = str(geometry.dtype).removeprefix("torch.")
        raise ModelLoadFailed(
            f"OpenVINO supports float32 and bfloat16 on a CPU, not {dtype} on {geometry.device.type}:"
            " unset PENSTOCK_COMPUTE_BACKEND, or set PENSTOCK_DTYPE=float32"
        )
    if geometry.dtype == torch.bfloat16 and not computes_bfloat16():
        raise ModelLoadFailed(
            "OpenVINO requires bfloat16 instructions, and this processor has none:"
            " unset PENSTOCK_COMPUTE_BACKEND, or set PENSTOCK_DTYPE=float32"
        )


class OpenVinoBackend(ComputeBackend):
    """A decoder that runs as one OpenVINO graph."""

    name = "openvino"
    block_tokens = BLOCK_TOKENS
    spare_blocks = 0
    gathered_layers = 0

    def __init__(self, geometry: Geometry) -> None:
        _check_support(geometry)
        self._heads, self._dtype = geometry.heads, geometry.dtype

    @override
    def allocate(self, blocks: int) -> torch.Tensor:
        shape = (2 * blocks, self._heads.kv, self.block_tokens, self._heads.size)
        return torch.zeros(shape, dtype=self._dtype)

    @override
    def decoders(
        self, model: PreTrainedModel, caches: list[torch.Tensor], longest: int
    ) -> Iterator[Decoder]:
        try:
            graph = build(extract_parts(model, longest), self._heads)
            decoder = OpenVinoDecoder(graph, caches)
        except (
            UnsupportedArchitecture,
            RuntimeError,
        ) as error:  # OpenVINO without its frontends raises RuntimeError only
            raise ModelLoadFailed(
                f"OpenVINO does not support this model: {describe(error)}; unset PENSTOCK_COMPUTE_BACKEND"
            ) from error
        yield decoder
