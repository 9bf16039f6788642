"""The C structures of decoder.c, field by field, and tensors as pointers."""

import ctypes
from enum import IntEnum
from typing import Any

import torch

Floats = ctypes.POINTER(ctypes.c_float)
_INT = ctypes.c_int64


class Kind(IntEnum):
    """`enum Kind`."""

    EMBED = 0
    RMS_NORM = 1
    LAYER_NORM = 2
    LINEAR = 3
    ATTEND = 4
    ACTIVATE = 5
    ADD = 6
    PICK = 7
    SOFTCAP = 8


class Activation(IntEnum):
    """`enum Activation`."""

    SILU = 0
    GELU_TANH = 1
    GELU_ERF = 2
    RELU = 3


class Op(ctypes.Structure):
    """`Op`."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "activation", "gated", "accumulate")),
        *((name, ctypes.c_int32) for name in ("on_picks", "window", "as_units", "unused")),
        *((name, _INT) for name in ("n", "k", "in_stride", "out_stride")),
        *((name, ctypes.c_float) for name in ("eps", "scale", "softcap", "padding")),
        *((name, ctypes.c_void_p) for name in ("in_", "out", "weight", "bias", "cosine", "sine")),
        *((name, ctypes.c_void_p) for name in ("query_norm", "key_norm", "keys", "values")),
    ]


class Batch(ctypes.Structure):
    """`Batch`."""

    _fields_ = [
        *((name, _INT) for name in ("tokens", "picks", "table_stride", "heads", "kv_heads")),
        *((name, _INT) for name in ("size", "block_tokens", "threads", "scores_stride")),
        *(
            (name, ctypes.c_void_p)
            for name in ("ids", "positions", "slots", "starts", "owners", "picked")
        ),
        ("tables", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
    ]


def pointer(tensor: torch.Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
    """Return where a contiguous tensor of `dtype` lies; whoever takes it must keep the tensor."""
    if tensor is None:
        return None
    if tensor.dtype != dtype or not tensor.is_contiguous():
        raise ValueError(f"needs contiguous {dtype}, got {tensor.dtype} {tuple(tensor.stride())}")
    return tensor.data_ptr()


UNITS = {torch.float32: 1, torch.bfloat16: 2}
"""Numbers in 32 bits (units.h), of the types that decoder.c is compiled for."""


def function(library: ctypes.CDLL, name: str, dtype: torch.dtype) -> Any:
    """Return `penstock_name` of the half of `library` that computes in `dtype`."""
    suffix = "" if dtype == torch.float32 else f"_{dtype}".replace("torch.", "")
    found = library[f"penstock_{name}{suffix}"]
    found.restype = None
    return found
