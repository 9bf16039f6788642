"""Torch modules and programs that compute in a narrower data type: 16 bits by autocast, int8 in linear layers.

Under autocast, linear layers and convolutions compute in 16 bits, and operators that lose precision in float32. The weights of
those layers are stored in 16 bits, so that no call converts them.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import torch
from torch.fx import GraphModule, Node

from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import ModelInfo, ModelLoadFailed, describe
from penstock_runtime.models.device.int8_linear import NO_LINEAR_LAYERS, ON_CPU_ONLY, Int8Linear
from penstock_runtime.models.device.tensors import TORCH_DATATYPES
from penstock_runtime.models.torch_model import TorchModel

Call = Callable[[list[torch.Tensor]], Any]

_LAYERS = (
    torch.nn.Linear,
    torch.nn.modules.conv._ConvNd,
)
_LINEAR = torch.ops.aten.linear.default
_WEIGHTED = frozenset(
    {
        _LINEAR,
        torch.ops.aten.conv1d.default,
        torch.ops.aten.conv2d.default,
        torch.ops.aten.conv3d.default,
        torch.ops.aten.convolution.default,
    }
)
_TYPES = {name: dtype for dtype, name in TORCH_DATATYPES.items()}


def narrow_copy(module: torch.nn.Module, dtype: DType) -> torch.nn.Module:
    """Return a copy of a module whose linear layers and convolutions have weights of 16 bits.

    Raises:
        ModelLoadFailed: the module cannot be copied.
    """
    try:
        copied = copy.deepcopy(module)
    except Exception as error:  # a module of any code
        raise ModelLoadFailed(
            f"the module cannot be copied to compute in {dtype} ({describe(error)}): remove spec.model.dtype"
        ) from error
    for layer in copied.modules():
        if isinstance(layer, _LAYERS):
            layer.to(_torch_type(dtype))
    return copied


def narrow_model(
    call: Call, graph: GraphModule, info: ModelInfo, dtype: DType, device: torch.device
) -> TorchModel:
    """Return the model of `call`, which runs `graph`; the graph is changed.

    Raises:
        ModelLoadFailed: int8 was requested on a GPU, or of a program without linear layers.
    """
    if dtype is not DType.INT8:
        narrow_weights(graph, dtype)
        return TorchModel(info, autocast_call(call, info, dtype, device), device)
    if device.type != "cpu":
        raise ModelLoadFailed(ON_CPU_ONLY)
    if not int8_linears(graph):
        raise ModelLoadFailed(NO_LINEAR_LAYERS)
    return TorchModel(info, call, device)


def narrow_weights(graph: GraphModule, dtype: DType) -> None:
    """Store the weights of a program's linear layers and convolutions in 16 bits, those that nothing else uses."""
    for node in _weighted(graph):
        for argument in node.args[1:3]:
            if _is_weight(argument) and all(user.target in _WEIGHTED for user in argument.users):
                _set(graph, argument.target, _get(graph, argument.target).to(_torch_type(dtype)))


def int8_linears(graph: GraphModule) -> int:
    """Replace a program's linear layers by int8 ones; return their number."""
    count = 0
    for node in list(_weighted(graph)):
        weight, bias = node.args[1], node.args[2] if len(node.args) > 2 else None
        if node.target is not _LINEAR or not _is_weight(weight) or not (bias is None or _is_weight(bias)):  # fmt: skip
            continue
        name = f"int8_{count}"
        values = None if bias is None else _get(graph, bias.target)
        graph.add_submodule(name, Int8Linear(_get(graph, weight.target), values))
        with graph.graph.inserting_before(node):
            node.replace_all_uses_with(graph.graph.call_module(name, (node.args[0],)))
        graph.graph.erase_node(node)
        count += 1
    _drop_unused(graph)
    graph.recompile()
    return count


def autocast_call(call: Call, info: ModelInfo, dtype: DType, device: torch.device) -> Call:
    """Return `call` under autocast, with outputs of the declared types."""
    types = {spec.name: _TYPES[spec.datatype] for spec in info.outputs}

    def narrow(tensors: list[torch.Tensor]) -> Any:
        with torch.autocast(device.type, dtype=_torch_type(dtype), cache_enabled=False):
            result = call(tensors)
        return _declared(result, types)

    return narrow


def _declared(result: Any, types: Mapping[str, torch.dtype]) -> Any:
    if isinstance(result, torch.Tensor):
        return result.to(next(iter(types.values())))
    if isinstance(result, Mapping):
        return {name: result[name].to(dtype) for name, dtype in types.items() if name in result}
    return [tensor.to(dtype) for tensor, dtype in zip(result, types.values(), strict=False)]


def _torch_type(dtype: DType) -> torch.dtype:
    return getattr(torch, dtype.value)  # type: ignore[no-any-return]


def _weighted(graph: GraphModule) -> Iterator[Node]:
    return (node for node in graph.graph.nodes if node.target in _WEIGHTED)


def _is_weight(argument: object) -> TypeGuard[Node]:
    return isinstance(argument, Node) and argument.op == "get_attr"


def _get(graph: GraphModule, target: Any) -> torch.Tensor:
    parent, _, leaf = str(target).rpartition(".")
    value: torch.Tensor = getattr(graph.get_submodule(parent), leaf)
    return value.detach()


def _set(graph: GraphModule, target: Any, value: torch.Tensor) -> None:
    parent, _, leaf = str(target).rpartition(".")
    owner = graph.get_submodule(parent)
    kept = torch.nn.Parameter(value, requires_grad=False)
    setattr(owner, leaf, kept if leaf in owner._parameters else value)


def _drop_unused(graph: GraphModule) -> None:
    """Remove weights that no node reads, which int8 layers hold in their own form."""
    for node in [each for each in graph.graph.nodes if each.op == "get_attr" and not each.users]:
        graph.graph.erase_node(node)
        if any(other.target == node.target for other in graph.graph.nodes):
            continue
        parent, _, leaf = str(node.target).rpartition(".")
        owner = graph.get_submodule(parent)
        if leaf in owner._parameters or leaf in owner._buffers:
            delattr(owner, leaf)
