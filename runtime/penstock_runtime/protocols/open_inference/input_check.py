"""Checks of input contents and of shapes across inputs, before a bad row joins a batch with those of other clients."""

from typing import NamedTuple

import numpy as np

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.request import Tensor


class InputFault(NamedTuple):
    """A fault that keeps inputs out of a batch."""

    input: str
    place: str
    """`shape` or `data`."""
    words: str
    """The fault and its remedy."""


def has_content_checks(info: ModelInfo) -> bool:
    """Return whether `fault_of` checks anything for this model."""
    return any(spec.ragged or spec.values is not None or spec.marks for spec in info.inputs)


def fault_of(info: ModelInfo, inputs: dict[str, Tensor]) -> InputFault | None:
    """Return the first fault of `inputs`, whose shapes fit their specs and have equal rows; None without a fault."""
    return _unequal(info, inputs) or next(
        (
            InputFault(spec.name, "data", words)
            for spec in info.inputs
            if (words := _wrong(spec, inputs[spec.name])) is not None
        ),
        None,
    )


def _unequal(info: ModelInfo, inputs: dict[str, Tensor]) -> InputFault | None:
    lengths = [(spec.name, inputs[spec.name].shape[1]) for spec in info.inputs if spec.ragged]
    for name, length in lengths[1:]:
        first, expected = lengths[0]
        if length != expected:
            words = (
                f"has rows of {length}, but those of {first!r} have {expected}: send equal lengths"
            )
            return InputFault(name, "shape", words)
    return None


def _wrong(spec: TensorSpec, tensor: Tensor) -> str | None:
    if spec.values is not None:
        for value in (int(tensor.min()), int(tensor.max())):
            if value not in spec.values:
                return f"holds {value}: send {spec.values.start} to {spec.values.stop - 1}"
    if spec.marks and not (marked := tensor.any(axis=1)).all():
        return f"marks nothing in row {int(np.argmin(marked))}: mark the tokens of each row with 1"
    return None
