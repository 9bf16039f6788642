"""Cuts a transformers model to the layers of one stage, and passes hidden states between stages."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from typing_extensions import override

from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.ranks.group import RankGroup
from penstock_runtime.models.decoders.ranks.stages import STAGE_MODULES, stage_layers


class AbsentModule(nn.Module):
    """Takes the place of a module of another stage, so that the model's own forward pass remains in force."""


class _PassThrough(AbsentModule):
    """A layer or norm of another stage."""

    @override
    def forward(self, hidden: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return hidden


class _NoEmbedding(AbsentModule):
    """An embedding of the first stage: zeros, of which only the shape and the type are used."""

    def __init__(self, embedding: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self._width: int = embedding.embedding_dim
        self._dtype = dtype

    @override
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids.new_zeros((), dtype=self._dtype).expand(*ids.shape, self._width)


class _NoLogits(AbsentModule):
    """The output head of the last stage: no logits."""

    @override
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden[..., :0]


def own_layers(config: PreTrainedConfig, seat: RankSeat) -> range:
    """Return the layers of a rank.

    Raises:
        ModelLoadFailed: there are more stages than layers.
    """
    return stage_layers(int(config.num_hidden_layers), seat.stage, seat.stages)


def cut_stage(
    model: nn.Module, config: PreTrainedConfig, seat: RankSeat, dtype: torch.dtype
) -> None:
    """Replace the modules that other stages have."""
    modules, own = STAGE_MODULES[config.model_type], own_layers(config, seat)
    layers: Any = model.get_submodule(modules.layers)
    for index in set(range(len(layers))) - set(own):
        layers[index] = _PassThrough()
    if seat.stage > 0:
        for name in modules.first:
            model.set_submodule(name, _NoEmbedding(model.get_submodule(name), dtype))
    if seat.stage < seat.stages - 1:
        for name in modules.last:
            model.set_submodule(name, _PassThrough())
        model.set_submodule(modules.head, _NoLogits())


def join_stages(model: nn.Module, config: PreTrainedConfig, group: RankGroup) -> None:
    """Make the first layer of a stage receive its input from the stage before, and the last send its output."""
    modules, own = STAGE_MODULES[config.model_type], own_layers(config, group.seat)
    layers: Any = model.get_submodule(modules.layers)

    def receive(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, *others = arguments
        return group.receive_hidden(hidden), *others

    def send(_module: nn.Module, _arguments: object, output: torch.Tensor) -> None:
        group.send_hidden(output)

    if group.seat.stage > 0:
        layers[own[0]].register_forward_pre_hook(receive)
    if group.seat.stage < group.seat.stages - 1:
        layers[own[-1]].register_forward_hook(send)
