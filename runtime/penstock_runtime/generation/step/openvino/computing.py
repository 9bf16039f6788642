"""OpenVINO as what computes: float32 or bfloat16 on a CPU, for the families that can be taken apart."""

from collections.abc import Iterator

import openvino as ov
import torch
from transformers import PreTrainedModel

from penstock_runtime.generation.step.attention.base import Geometry
from penstock_runtime.generation.step.blueprint import UnknownFamily, take_apart
from penstock_runtime.generation.step.generic import Decoder
from penstock_runtime.generation.step.openvino.decoder import OpenVinoDecoder
from penstock_runtime.generation.step.openvino.graph import BLOCK_TOKENS, PRECISIONS, build
from penstock_runtime.models.base import ModelLoadFailed, describe


def _refuse_others(geometry: Geometry) -> None:
    if geometry.dtype not in PRECISIONS or geometry.device.type != "cpu":
        dtype = str(geometry.dtype).removeprefix("torch.")
        raise ModelLoadFailed(
            f"PENSTOCK_STEP=OpenVINO computes float32 and bfloat16 on a CPU, not {dtype} on"
            f" {geometry.device.type}: set PENSTOCK_DTYPE=float32, or unset it"
        )
    able = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if geometry.dtype == torch.bfloat16 and "BF16" not in able:
        raise ModelLoadFailed(
            "PENSTOCK_STEP=OpenVINO computes bfloat16 on processors with instructions for it, and"
            " this one has none: set PENSTOCK_DTYPE=float32, or unset it"
        )


class OpenVinoComputing:
    """A `Computing`."""

    name = "openvino"
    block_tokens = BLOCK_TOKENS
    spare_blocks = 0
    gathered_layers = 0

    def __init__(self, geometry: Geometry) -> None:
        _refuse_others(geometry)
        self._heads, self._dtype = geometry.heads, geometry.dtype

    def allocate(self, blocks: int) -> torch.Tensor:
        """As `Computing.allocate`; a block is [kv, block_tokens, size]."""
        shape = (2 * blocks, self._heads.kv, self.block_tokens, self._heads.size)
        return torch.zeros(shape, dtype=self._dtype)

    def decoders(
        self, model: PreTrainedModel, caches: list[torch.Tensor], longest: int
    ) -> Iterator[Decoder]:
        """As `Computing.decoders`: one, or ModelLoadFailed."""
        try:
            graph = build(take_apart(model, longest), self._heads)
            decoder = OpenVinoDecoder(graph, caches)
        except (UnknownFamily, RuntimeError) as error:  # OpenVINO raises all as RuntimeError
            raise ModelLoadFailed(
                f"OpenVINO does not run this model: {describe(error)}; unset PENSTOCK_STEP"
            ) from error
        yield decoder
