"""Public import path of the `Model` contract, which `penstock_runtime.engine.model` defines."""

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
