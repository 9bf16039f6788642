"""Linear layers for CPU inference with oneDNN: prepacked weights, and fused activation or residual.

Whether prepacking is faster depends on processor and shape (Intel with AVX-512 gains 10-30 %, AMD with AVX2 and MKL
behind `F.linear` may lose), so both variants of each shape are timed when the model is loaded.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import torch
from torch.nn import functional
from typing_extensions import override

ONE_DNN_ACTIVATIONS = {"gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "relu": ("relu", "")}
"""oneDNN's unary operation and algorithm by the name of the activation in transformers."""

PROBE_ROWS = 256
"""Rows of a timing run, as many as a small batch has tokens."""
PROBE_TIMES = 3


class Affine(Protocol):
    """y = x W' + b, over the last axis of a two-dimensional x."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return y."""

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """Return activation(y)."""

    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Return y + residual."""


Activation = Callable[[torch.Tensor], torch.Tensor]


class Plain(Affine):
    """An affine layer computed by `F.linear`."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, act: Activation) -> None:
        self._weight, self._bias, self._act = weight, bias, act

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self._weight, self._bias)

    @override
    def activated(self, x: torch.Tensor) -> torch.Tensor:
        return self._act(self(x))

    @override
    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self(x).add_(residual)


class Prepacked(Affine):
    """An affine layer computed by oneDNN, called as in torch's own compiler (torch/_inductor/mkldnn_ir.py)."""

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, fused: tuple[str, str] | None
    ) -> None:
        ops: Any = torch.ops.mkldnn
        self._weight = ops._reorder_linear_weight(weight.detach().contiguous())
        self._bias = None if bias is None else bias.detach().clone()
        self._fused = fused
        self._unary = ops._linear_pointwise.default
        self._binary = ops._linear_pointwise.binary

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._unary(x, self._weight, self._bias, "none", [], "")
        return y

    @override
    def activated(self, x: torch.Tensor) -> torch.Tensor:
        if self._fused is None:
            return self(x)
        y: torch.Tensor = self._unary(
            x, self._weight, self._bias, self._fused[0], [], self._fused[1]
        )
        return y

    @override
    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._binary(x, residual, self._weight, self._bias, "add")
        return y


def can_prepack(weight: torch.Tensor) -> bool:
    """Return whether oneDNN supports this weight."""
    return (
        weight.device.type == "cpu"
        and weight.dtype is torch.float32
        and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def merged(*linears: torch.nn.Linear) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return one weight and bias for several layers of the same input, whose outputs are concatenated."""
    if len(linears) == 1:
        bias = linears[0].bias
        return linears[0].weight.detach(), None if bias is None else bias.detach()
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    if biases and len(biases) < len(linears):
        raise ValueError("the layers must either all have a bias or all have none")
    return weight, torch.cat(biases) if biases else None


class Use(StrEnum):
    """Method of an `Affine` that a layer calls."""

    PLAIN = "plain"
    ACTIVATED = "activated"
    ADDED = "added"


class Chooser:
    """Chooses the faster variant for each shape and use, by timing both once."""

    def __init__(self, act: Activation, fused: tuple[str, str] | None) -> None:
        """`act` and `fused` are the same activation: in torch, and by its oneDNN name."""
        self.act, self._fused = act, fused
        self._prepacks: dict[tuple[torch.Size, Use], bool] = {}

    def affine(self, weight: torch.Tensor, bias: torch.Tensor | None, use: Use) -> Affine:
        """Return the layer."""
        plain = Plain(weight, bias, self.act)
        if not can_prepack(weight):
            return plain
        shape = (weight.shape, use)
        if self._prepacks.get(shape) is False:
            return plain
        prepacked = Prepacked(weight, bias, self._fused)
        if shape not in self._prepacks:
            self._prepacks[shape] = seconds(prepacked, weight, use) < seconds(plain, weight, use)
        return prepacked if self._prepacks[shape] else plain


def seconds(affine: Affine, weight: torch.Tensor, use: Use) -> float:
    """Return the CPU time of one call on PROBE_ROWS rows, the minimum of several, because the machine may be shared."""
    x, residual = (torch.ones(PROBE_ROWS, size) for size in reversed(weight.shape))
    calls: dict[Use, Callable[[], torch.Tensor]] = {
        Use.PLAIN: lambda: affine(x),
        Use.ACTIVATED: lambda: affine.activated(x),
        Use.ADDED: lambda: affine.added(x, residual),
    }
    with torch.inference_mode():
        calls[use]()
        return min(_timed(calls[use]) for _ in range(PROBE_TIMES))


def _timed(call: Callable[[], torch.Tensor]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


class PrepackedLinear(torch.nn.Module):
    """Replacement of a `torch.nn.Linear` inside any module; the original weight is released."""

    def __init__(self, linear: torch.nn.Linear, affine: Affine) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._affine = affine

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self._affine(x.reshape(-1, self.in_features))
        return y.view(*x.shape[:-1], self.out_features)


def prepack(module: torch.nn.Module, chooser: Chooser | None = None) -> int:
    """Replace every linear layer of `module` that oneDNN computes faster; return their number."""
    chooser, replaced = chooser or Chooser(torch.nn.Identity(), None), 0
    for name, child in list(module.named_children()):
        if type(child) is not torch.nn.Linear:
            replaced += prepack(child, chooser)
            continue
        affine = chooser.affine(child.weight, child.bias, Use.PLAIN)
        if isinstance(affine, Prepacked):
            setattr(module, name, PrepackedLinear(child, affine))
            replaced += 1
    return replaced
