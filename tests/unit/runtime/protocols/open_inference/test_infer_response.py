"""Rendering of outputs as the body of an answer, for every memory layout."""

import json

import numpy as np
import pytest

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from penstock_runtime.protocols.open_inference.infer_response import render
from penstock_runtime.protocols.open_inference.outputs import RequestedOutput
from penstock_runtime.request import Tensor

MODEL = ModelInfo(
    name="m",
    platform="pytorch_module",
    backend="cpu",
    inputs=(TensorSpec("X", "FP32", (-1, 3)),),
    outputs=(TensorSpec("Y", "FP32", (-1, 3)),),
    max_rows=8,
)
WIDE = np.arange(12, dtype=np.float32).reshape(2, 6)


def data_of(array: Tensor) -> object:
    body = render(None, {"Y": array}, (RequestedOutput("Y", binary=False),), MODEL).body
    return json.loads(bytes(body))["outputs"][0]["data"]


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(WIDE[:1, :3], id="a single row"),
        pytest.param(WIDE[1:, ::2], id="every other column of a row"),
        pytest.param(WIDE, id="rows"),
        pytest.param(WIDE.T, id="turned"),
        pytest.param(np.array([[np.nan, 1, -np.inf]], np.float32), id="NaN and infinity"),
        pytest.param(np.arange(70_000, dtype=np.float32).reshape(7, -1), id="many rows"),
        pytest.param(np.arange(70_000.0).reshape(-1, 7).T, id="many transposed rows"),
    ],
)
def test_numbers_are_written_row_by_row(array: Tensor) -> None:
    assert data_of(array) == pytest.approx(array.reshape(-1).tolist(), nan_ok=True)


def test_an_unsupported_dtype_is_an_error() -> None:
    with pytest.raises(TypeError):
        data_of(np.array([[1j]], np.complex64).astype(object))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_single_binary_output_follows_json_with_its_size(rows: int) -> None:
    array = np.arange(8.0 * rows, dtype=np.float32).reshape(rows, 8)[:, ::2]
    answer = render(None, {"Y": array}, (RequestedOutput("Y", binary=True),), MODEL)
    assert answer.header_length is not None
    text, data = answer.body[: answer.header_length], answer.body[answer.header_length :]
    (output,) = json.loads(bytes(text))["outputs"]
    assert output["shape"] == [rows, 4]
    assert (
        output["parameters"] == {"binary_data_size": 16 * rows} == {"binary_data_size": len(data)}
    )
    assert data == array.astype("<f4").tobytes()
    named = render("a", {"Y": array}, (RequestedOutput("Y", binary=True),), MODEL)
    assert named.header_length is not None
    assert bytes(named.body[: named.header_length]).replace(b',"id":"a"', b"") == text
    assert named.body[named.header_length :] == data
