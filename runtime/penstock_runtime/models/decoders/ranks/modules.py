"""Splits a transformers model: creates a rank's modules without weights, reads its slices, and adds the collectives."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.initialization import no_init_weights
from transformers.pytorch_utils import Conv1D
from transformers.utils import GENERATION_CONFIG_NAME
from typing_extensions import override

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.ranks.group import RankGroup
from penstock_runtime.models.decoders.ranks.layout import (
    Role,
    SplitRule,
    family_of,
    rule_of,
    shard_ranges,
)
from penstock_runtime.models.decoders.ranks.pipeline import AbsentModule, cut_stage, join_stages
from penstock_runtime.models.weights import WeightFiles, reject_quantized

_META = torch.device("meta")


def load_shard(
    folder: Path,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    group: RankGroup,
) -> PreTrainedModel:
    """Return this rank's shard of the model in `folder`, in inference mode with eager attention.

    Its logits are those of the whole model on rank 0; on the others they are without meaning.

    Raises:
        ModelLoadFailed: the ranks do not divide the model, or the weights are missing, quantized or do not match `config`.
    """
    family, seat = family_of(config, group.seat.tensor), group.seat
    model = _without_weights(config, dtype)
    tied = tied_parameters(model)
    cut_stage(model, config, seat, dtype)
    with ExitStack() as files:
        checkpoint = WeightFiles(folder, model.base_model_prefix, files)
        reject_quantized(folder, config)
        _Shard(checkpoint, family, dtype, device, seat).read_into(model, tied)
    if seat.tensor > 1:
        _join_parts(model, family, group)
    join_stages(model, config, group)
    if (folder / GENERATION_CONFIG_NAME).is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    loaded: PreTrainedModel = model.to(device).eval()
    return loaded


def _without_weights(config: PreTrainedConfig, dtype: torch.dtype) -> Any:
    """Return the modules of a model, whose parameters have no memory, with its buffers."""
    auto: Any = AutoModelForCausalLM
    with no_init_weights(), _parameters_on_meta():
        model = auto.from_config(config, dtype=dtype, attn_implementation="eager")
        model.tie_weights()
    return model


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Register every new parameter without its memory; buffers keep theirs, because they are computed."""
    register: Any = nn.Module.register_parameter

    def register_on_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:  # a tied one is registered again
            parameter = nn.Parameter(parameter.to(_META), requires_grad=False)
        register(module, name, parameter)

    nn.Module.register_parameter = register_on_meta  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


Tied = Sequence[tuple[str, nn.Module, str]]
"""A parameter: the modules that share it, with their names and its name in each."""


def tied_parameters(model: nn.Module) -> list[Tied]:
    """Return all parameters of a model."""
    owners: dict[int, list[tuple[str, nn.Module, str]]] = {}
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            owners.setdefault(id(parameter), []).append((name, module, own))
    return list(owners.values())


@dataclass(frozen=True, slots=True)
class _Shard:
    """Reads the parameters of one rank."""

    checkpoint: WeightFiles
    family: Mapping[str, SplitRule]
    dtype: torch.dtype
    device: torch.device
    seat: RankSeat

    def read_into(self, model: nn.Module, parameters: Sequence[Tied]) -> None:
        """Replace those of `parameters` that a module of `model` has; tied ones stay tied."""
        present = set(model.modules())
        for tied in parameters:
            owners = [owner for owner in tied if owner[1] in present]
            if owners:
                self._read(tied, owners)

    def _read(self, tied: Tied, owners: Tied) -> None:
        """Read a parameter, whose name in the checkpoint is that of any module of `tied`, for the modules of `owners`."""
        name, module, own = tied[0]
        slices = (self.checkpoint.slice_of(f"{other}.{key}") for other, _, key in tied)
        stored = next(filter(None, slices), None)
        whole = tuple(getattr(module, own).shape)
        if stored is None or tuple(stored.get_shape()) != whole:
            got = "is missing" if stored is None else f"has shape {stored.get_shape()}"
            raise ModelLoadFailed(f"weight {name}.{own} {got}: the model needs shape {list(whole)}")
        rule = rule_of(self.family, name)
        tensor = stored[:] if rule is None else self._part(stored, own, module, rule)
        parameter = nn.Parameter(tensor.to(self.device, self.dtype), requires_grad=False)
        for other, owner, key in owners:
            setattr(owner, key, parameter)
            if rule is not None or rule_of(self.family, other) is not None:
                _resize(owner)

    def _part(self, stored: Any, own: str, module: nn.Module, rule: SplitRule) -> torch.Tensor:
        """Return this rank's slice of a parameter; only the slice is read."""
        shape, first = stored.get_shape(), self.seat.part == 0
        if rule.role is Role.INPUTS and own == "bias":
            bias: torch.Tensor = stored[:]
            return bias if first else torch.zeros_like(bias)
        axis = _split_axis(rule.role, len(shape), transposed=isinstance(module, Conv1D))
        ranges = shard_ranges(shape[axis], rule.parts, self.seat.part, self.seat.tensor)
        index = [slice(at.start, at.stop) for at in ranges]
        pieces = [stored[at] if axis == 0 else stored[:, at] for at in index]
        return torch.cat(pieces, axis) if len(pieces) > 1 else pieces[0].contiguous()


def _split_axis(role: Role, dimensions: int, *, transposed: bool) -> int:
    """Return the split axis of a weight; `transposed`: [inputs, outputs], as GPT-2's."""
    if dimensions == 1:
        return 0
    return int((role is Role.INPUTS) != transposed)


def _resize(module: Any) -> None:
    """Set the sizes of a module whose weight is split to those of the shard."""
    match module:
        case nn.Linear():
            module.out_features, module.in_features = module.weight.shape
        case Conv1D():
            module.nx, module.nf = module.weight.shape
        case nn.Embedding():
            module.num_embeddings = len(module.weight)


def _join_parts(model: nn.Module, family: Mapping[str, SplitRule], group: RankGroup) -> None:
    """Add the collectives of a stage that is split over several ranks."""
    for name, module in list[tuple[str, Any]](model.named_modules()):
        rule = rule_of(family, name)
        if rule is not None and not isinstance(module, AbsentModule):
            _join(model, name, module, rule, group)
        if hasattr(module, "split_size"):  # GPT-2's attention splits its outputs by this
            module.split_size //= group.seat.tensor
            module.num_heads //= group.seat.tensor


def _join(model: nn.Module, name: str, module: Any, rule: SplitRule, group: RankGroup) -> None:
    """Add the collective of a split module."""
    match rule.role:
        case Role.INPUTS:
            module.register_forward_hook(lambda _module, _inputs, output: group.sum(output))
        case Role.HEAD:
            module.register_forward_hook(lambda _module, _inputs, output: group.gather(output))
        case Role.EMBEDDING:
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, _SplitEmbedding(module, group))
        case Role.OUTPUTS:
            pass


class _SplitEmbedding(nn.Module):
    """An embedding that knows consecutive ids of the vocabulary."""

    def __init__(self, embedding: Any, group: RankGroup) -> None:
        super().__init__()
        self._embedding = embedding
        self._ids: int = embedding.num_embeddings
        self._first = group.seat.part * self._ids
        self._group = group

    @override
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        own = ids - self._first
        foreign = (own < 0) | (own >= self._ids)
        embedded = self._embedding(own.masked_fill(foreign, 0))
        return self._group.sum(embedded.masked_fill(foreign[..., None], 0.0))
