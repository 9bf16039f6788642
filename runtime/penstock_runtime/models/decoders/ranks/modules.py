"""Splits a transformers model: creates its modules without weights, reads a rank's slices, and adds the collectives."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
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

from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.decoders.ranks.group import RankGroup
from penstock_runtime.models.decoders.ranks.layout import (
    Role,
    SplitRule,
    family_of,
    rule_of,
    shard_ranges,
)

_META = torch.device("meta")


def load_shard(
    folder: Path,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    group: RankGroup,
) -> PreTrainedModel:
    """Return this rank's shard of the model in `folder`, in inference mode with eager attention.

    Its logits are those of the whole model, on every rank.

    Raises:
        ModelLoadFailed: the ranks do not divide the model, or the weights are missing or do not match `config`.
    """
    family = family_of(config, group.ranks)
    model = _without_weights(config, dtype)
    with ExitStack() as files:
        checkpoint = WeightFiles(folder, model.base_model_prefix, files)
        _Shard(checkpoint, family, dtype, device, group).read_into(model)
    for name, module in list(model.named_modules()):
        rule = rule_of(family, name)
        if rule is not None:
            _join(model, name, module, rule, group)
        if hasattr(module, "split_size"):  # GPT-2's attention splits its outputs by this
            module.split_size //= group.ranks
            module.num_heads //= group.ranks
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


class WeightFiles:
    """The tensors of safetensors files, of which slices are read."""

    def __init__(self, folder: Path, prefix: str, opened: ExitStack) -> None:
        """`prefix` is that of the base model, which some checkpoints omit; `opened` closes the files.

        Raises:
            ModelLoadFailed: a file is missing or invalid.
        """
        self._prefix = f"{prefix}."
        self._files: dict[str, Any] = {}
        try:
            for path in _weight_files(folder):
                file = opened.enter_context(safe_open(path, framework="pt"))
                self._files.update(dict.fromkeys(file.keys(), file))
        except Exception as error:  # safetensors raises errors of its own
            raise ModelLoadFailed(
                f"the weights in {folder} cannot be read: {describe(error)}"
            ) from error

    def slice_of(self, name: str) -> Any | None:
        """Return the safetensors slice of a parameter; None: the checkpoint does not contain it."""
        for key in (name, name.removeprefix(self._prefix)):
            if key in self._files:
                return self._files[key].get_slice(key)
        return None


def _weight_files(folder: Path) -> list[Path]:
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole]
    return [
        folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))
    ]


@dataclass(frozen=True, slots=True)
class _Shard:
    """Reads the parameters of one rank."""

    checkpoint: WeightFiles
    family: Mapping[str, SplitRule]
    dtype: torch.dtype
    device: torch.device
    group: RankGroup

    def read_into(self, model: nn.Module) -> None:
        """Replace every parameter; tied ones stay tied."""
        owners: dict[int, list[tuple[str, nn.Module, str]]] = {}
        for name, module in model.named_modules():
            for own, parameter in module.named_parameters(recurse=False):
                owners.setdefault(id(parameter), []).append((name, module, own))
        for tied in owners.values():
            self._read(tied)

    def _read(self, tied: list[tuple[str, nn.Module, str]]) -> None:
        """Read the parameter that the modules of `tied` share."""
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
        for other, owner, key in tied:
            setattr(owner, key, parameter)
            if rule is not None or rule_of(self.family, other) is not None:
                _resize(owner)

    def _part(self, stored: Any, own: str, module: nn.Module, rule: SplitRule) -> torch.Tensor:
        """Return this rank's slice of a parameter; only the slice is read."""
        shape, first = stored.get_shape(), self.group.rank == 0
        if rule.role is Role.INPUTS and own == "bias":
            bias: torch.Tensor = stored[:]
            return bias if first else torch.zeros_like(bias)
        axis = _split_axis(rule.role, len(shape), transposed=isinstance(module, Conv1D))
        ranges = shard_ranges(shape[axis], rule.parts, self.group.rank, self.group.ranks)
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


def _join(model: nn.Module, name: str, module: Any, rule: SplitRule, group: RankGroup) -> None:
    """Add the collective of a split module."""
    match rule.role:
        case Role.INPUTS:
            module.register_forward_hook(lambda _module, _inputs, output: group.sum(output))
        case Role.HEAD:
            module.register_forward_hook(lambda _module, _inputs, output: group.concatenate(output))
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
        self._first = group.rank * self._ids
        self._group = group

    @override
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        own = ids - self._first
        foreign = (own < 0) | (own >= self._ids)
        embedded = self._embedding(own.masked_fill(foreign, 0))
        return self._group.sum(embedded.masked_fill(foreign[..., None], 0.0))
