"""Models in `.onnx` files and OpenVINO IR."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino as ov
import pytest
import torch
from onnx import TensorProto, helper

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.model import Model, ModelLoadFailed, TensorSpec
from penstock_runtime.models.backends.openvino_backend import read
from penstock_runtime.models.load import load
from penstock_runtime.models.program_files import OnnxSource
from tests.unit.runtime.models.backends.conftest import options, spec_of

FLOAT, ANY = TensorProto.FLOAT, 2**31 - 1
ONE: dict[int, bytes] = {FLOAT: b"\0\0\x80\x3f", TensorProto.BFLOAT16: b"\x80\x3f"}


def write_onnx(
    file: Path, *, rows: Any = "rows", out: Any = "rows", op: str = "Add", domain: str = "", kind: int = FLOAT
) -> Path:  # fmt: skip
    """Write y = x + 1, with a dynamic first dimension unless said otherwise."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "one"], ["y"], domain=domain)],
        "affine",
        [helper.make_tensor_value_info("x", kind, [rows, 3])],
        [helper.make_tensor_value_info("y", kind, [out, 3])],
        [helper.make_tensor("one", kind, [1], ONE[kind], raw=True)],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)
    return file


def write_ir(file: Path, shape: list[Any]) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = read(torch.export.export(torch.nn.Softmax(1), (torch.ones(2, 3),)))
    graph.reshape(ov.PartialShape(shape))
    graph.inputs[0].set_names({"x"})
    graph.outputs[0].set_names({"y"})
    ov.save_model(graph, file, compress_to_fp16=False)
    return file


def served(file: Path, backend: ModelBackend | None = None) -> Model:
    return load(spec_of(file, backend), "served", file.parent, options(file.parent))


def reason(file: Path, backend: ModelBackend | None = None) -> str:
    with pytest.raises(ModelLoadFailed) as raised:
        served(file, backend)
    assert "\n" not in str(raised.value)
    return str(raised.value)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "backend", [None, ModelBackend.ONNX_RUNTIME, ModelBackend.OPENVINO, ModelBackend.AUTO]
)
def test_an_onnx_file_is_served(tmp_path: Path, backend: ModelBackend | None) -> None:
    file = write_onnx(tmp_path / "m.onnx")
    for _ in range(2):
        model = served(file, backend)
        np.testing.assert_array_equal(model.run({"x": X})["y"], X + 1)
    bounds = ((1, ANY), (3, 3))
    assert model.info.inputs == (TensorSpec("x", "FP32", (-1, 3), bounds),)
    assert model.info.outputs == (TensorSpec("y", "FP32", (-1, 3), bounds),)
    assert (model.info.platform, model.info.max_rows) == ("onnxruntime_onnx", MAX_BATCH_SIZE)


def test_auto_measures_the_readers_of_an_onnx_file(tmp_path: Path) -> None:
    choice = served(write_onnx(tmp_path / "m.onnx"), ModelBackend.AUTO).info.model_backend
    assert choice is not None
    by_name = {each.name: each for each in choice.candidates}
    assert choice.name in ("ONNXRuntime", "OpenVINO")
    assert len(by_name["ONNXRuntime"].rows_per_second) == 3
    assert (
        by_name["Compile"].message == "torch compiles torch programs, modules and directories only"
    )


@pytest.mark.parametrize("backend", [None, ModelBackend.OPENVINO, ModelBackend.AUTO])
def test_an_openvino_ir_is_served(tmp_path: Path, backend: ModelBackend | None) -> None:
    model = served(write_ir(tmp_path / "m.xml", [ov.Dimension(1, 64), 3]), backend)
    np.testing.assert_allclose(model.run({"x": X})["y"].sum(1), [1, 1], rtol=1e-6)
    assert model.info.inputs == (TensorSpec("x", "FP32", (-1, 3), ((1, 64), (3, 3))),)
    assert (model.info.platform, model.info.max_rows) == ("openvino", 64)


def test_external_data_is_read_and_counts_in_the_digest(tmp_path: Path) -> None:
    plain = onnx.load(write_onnx(tmp_path / "m.onnx"))
    onnx.save(
        plain, tmp_path / "m.onnx",
        save_as_external_data=True, location="m.onnx.data", size_threshold=0,
    )  # fmt: skip
    model = served(tmp_path / "m.onnx", ModelBackend.OPENVINO)
    np.testing.assert_array_equal(model.run({"x": X})["y"], X + 1)
    (tmp_path / "m.onnx.data").write_bytes(np.array([5], np.float32).tobytes())
    changed = served(tmp_path / "m.onnx", ModelBackend.OPENVINO)
    np.testing.assert_array_equal(changed.run({"x": X})["y"], X + 5)


def test_a_folder_next_to_the_file_changes_nothing(tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "m.onnx")
    before = OnnxSource(file, 1).digest()
    (tmp_path / "other").mkdir()
    assert OnnxSource(file, 1).digest() == before
    (tmp_path / "weights").write_bytes(b"1")  # which the graph may refer to
    assert OnnxSource(file, 1).digest() != before


def test_one_fixed_row_is_served_row_by_row(tmp_path: Path) -> None:
    assert served(write_onnx(tmp_path / "m.onnx", rows=1, out=1)).info.max_rows == 1


@pytest.mark.parametrize("backend", [ModelBackend.EAGER, ModelBackend.COMPILE])
def test_a_file_has_no_torch_module(tmp_path: Path, backend: ModelBackend) -> None:
    why = reason(write_onnx(tmp_path / "m.onnx"), backend)
    assert why.startswith(f"backend {backend} cannot run the model: ")
    assert "torch" in why


def test_onnx_runtime_reads_no_ir(tmp_path: Path) -> None:
    why = reason(write_ir(tmp_path / "m.xml", [-1, 3]), ModelBackend.ONNX_RUNTIME)
    assert "ONNX Runtime reads no OpenVINO IR" in why


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": 4, "out": 4}, "the first dimension of its inputs (x: [4, 3]) is not a dynamic"),
        ({"out": 1}, "output 'y' has shape [1, 3], whose first dimension is not the rows"),
        ({"op": "Frobnicate", "domain": "acme"}, "acme:Frobnicate"),
        ({"kind": TensorProto.BFLOAT16}, "Could not find an implementation for Add"),
    ],
)
def test_an_onnx_file_that_cannot_be_served_says_why(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    file = write_onnx(tmp_path / "m.onnx", **changes)
    why = reason(file)
    assert why.startswith(f"file '{file}'")
    assert words in why


@pytest.mark.parametrize("name", ["m.onnx", "m.xml"])
def test_a_broken_or_missing_file_is_named(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    assert f"there is no file '{file}': correct the path in spec.model.source" in reason(file)
    file.write_bytes(b"not a model")
    assert reason(file).startswith(f"file '{file}': ")
