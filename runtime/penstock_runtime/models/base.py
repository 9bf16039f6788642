"""The contract of a model, under its documented name; it is defined in `penstock_runtime.engine.model`."""

from penstock_runtime.engine.model import (
    DeviceLost,
    Model,
    ModelInfo,
    ModelLoadFailed,
    OutOfMemory,
    TensorSpec,
    describe,
    group_of,
)

__all__ = [
    "DeviceLost",
    "Model",
    "ModelInfo",
    "ModelLoadFailed",
    "OutOfMemory",
    "TensorSpec",
    "describe",
    "group_of",
]
