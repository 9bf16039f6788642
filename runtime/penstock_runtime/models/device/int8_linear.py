"""Linear layers in int8 on a CPU: weights in int8 by output channel, inputs quantized at each call by their own range.

The accumulation is exact in int32, so the error is that of rounding weights and inputs to 8 bits. `quantized::linear_dynamic` is the
operator of torch's dynamic quantization.
"""

import warnings
from typing import Any

import torch
from typing_extensions import override

from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.device.prepacked_linear import Activation, Affine, Chooser, Use
from penstock_runtime.models.device.processor import has_int8_products

_MAX = 127.0
_MIN_SCALE = 1e-12
_INSTRUCTIONS = "avx512_vnni"
"""Those that torch's kernels (FBGEMM) use; on a processor that only has AVX-VNNI they add pairs in 16 bits."""


class Int8Affine(Affine):
    """An affine layer with int8 weights; inputs and outputs are float32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, act: Activation) -> None:
        """Raise `ModelLoadFailed` where torch lacks the operators for it."""
        self._in_seven_bits = not has_int8_products(_INSTRUCTIONS)
        self._act = act
        try:
            self._packed = _packed(weight, bias)
            self._linear: Any = torch.ops.quantized.linear_dynamic
        except (AttributeError, RuntimeError) as error:
            raise ModelLoadFailed(
                f"torch cannot compute linear layers in int8 ({describe(error)}): set spec.model.dtype to BFloat16 or Float32"
            ) from error

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._linear(x, self._packed, self._in_seven_bits)
        return y

    @override
    def activated(self, x: torch.Tensor) -> torch.Tensor:
        return self._act(self(x))

    @override
    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self(x).add_(residual)


def _packed(weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    exact = weight.detach().float()
    scales = (exact.abs().amax(1) / _MAX).clamp_min(_MIN_SCALE).double()
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    with warnings.catch_warnings():
        # torch 2.13, the newest that the package admits, announces another form of integer tensors
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        integers = torch.quantize_per_channel(exact, scales, zeros, 0, torch.qint8)
    pack: Any = torch.ops.quantized.linear_prepack
    return pack(integers, None if bias is None else bias.detach().float())


class Int8Chooser(Chooser):
    """Takes int8 for every layer."""

    @override
    def affine(self, weight: torch.Tensor, bias: torch.Tensor | None, use: Use) -> Affine:
        return Int8Affine(weight, bias, self.act)


ON_CPU_ONLY = "dtype Int8 is computed on CPUs only, and this pod has a GPU: set spec.model.dtype to Float16 or BFloat16"
NO_LINEAR_LAYERS = "dtype Int8 is for linear layers, and the model has none: set spec.model.dtype to BFloat16 or Float32"


class Int8Linear(torch.nn.Module):
    """A module around an `Int8Affine`, for inputs of any rank."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self._affine = Int8Affine(weight, bias, torch.nn.Identity())

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._affine(x)


def in_int8(module: torch.nn.Module) -> int:
    """Replace every linear layer of `module` by an int8 one; return their number."""
    replaced = 0
    for name, child in list(module.named_children()):
        if type(child) is torch.nn.Linear:
            setattr(module, name, Int8Linear(child.weight, child.bias))
            replaced += 1
        else:
            replaced += in_int8(child)
    return replaced
