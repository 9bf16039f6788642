"""OpenVINO as what computes: float32 on a CPU, for the families that can be taken apart."""

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

from penstock_runtime.generation.step.attention.base import Geometry
from penstock_runtime.generation.step.blueprint import UnknownFamily, take_apart
from penstock_runtime.generation.step.generic import Decoder
from penstock_runtime.generation.step.openvino.decoder import OpenVinoDecoder
from penstock_runtime.generation.step.openvino.graph import BLOCK_TOKENS, build
from penstock_runtime.models.base import ModelLoadFailed, describe


class OpenVinoComputing:
    """A `Computing`."""

    name = "openvino"
    block_tokens = BLOCK_TOKENS
    spare_blocks = 0
    gathered_layers = 0

    def __init__(self, geometry: Geometry) -> None:
        if geometry.dtype != torch.float32 or geometry.device.type != "cpu":
            dtype = str(geometry.dtype).removeprefix("torch.")
            raise ModelLoadFailed(
                f"PENSTOCK_STEP=OpenVINO computes float32 on a CPU, not {dtype} on"
                f" {geometry.device.type}: set PENSTOCK_DTYPE=float32, or unset it"
            )
        self._heads = geometry.heads

    def allocate(self, blocks: int) -> torch.Tensor:
        """As `Computing.allocate`; a block is [kv, block_tokens, size]."""
        return torch.zeros((2 * blocks, self._heads.kv, self.block_tokens, self._heads.size))

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
