from pathlib import Path

import numpy as np
import pytest
import torch

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.engine.dynamic.model_io import find_sample
from penstock_runtime.engine.model import ModelLoadFailed, TensorSpec
from penstock_runtime.models.export_program import load_program
from tests.unit.runtime.models.programs import Affine, Flat, Half, Pair, TwoNamed, batch, export

X = torch.ones(3, 4)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.pt2"


def test_a_program_has_its_own_names_types_and_shapes(file: Path) -> None:
    model = load_program(export(file, Affine(), X, dynamic={"x": {0: batch(64)}}))
    assert model.info.inputs == (TensorSpec("x", "FP32", (-1, 4), ((1, 64), (4, 4))),)
    assert model.info.outputs == (TensorSpec("output", "FP32", (-1, 4), ((1, 64), (4, 4))),)
    assert (model.info.platform, model.info.max_rows) == ("pytorch_torch_export", 64)
    assert model.info.backend in ("cpu",) or model.info.backend.startswith("cuda:")


@pytest.mark.parametrize("rows", [1, 2, 64])
def test_it_computes_any_number_of_rows(file: Path, rows: int) -> None:
    model = load_program(export(file, Affine(), X, dynamic={"x": {0: batch(64)}}))
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    np.testing.assert_array_equal(model.run({"x": x})["output"], 2 * x + 1)


def test_an_open_range_is_bounded_by_the_api(file: Path) -> None:
    model = load_program(export(file, Affine(), X, dynamic={"x": {0: batch()}}))
    assert model.info.max_rows == MAX_BATCH_SIZE


def test_keywords_and_named_outputs_keep_their_names(file: Path) -> None:
    rows = batch()
    model = load_program(
        export(
            file,
            TwoNamed(),
            X,
            scale=torch.ones(3, 1),
            dynamic={"x": {0: rows}, "scale": {0: rows}},
        )
    )
    assert [spec.name for spec in model.info.inputs] == ["x", "scale"]
    assert (model.info.outputs[1].name, model.info.outputs[1].shape) == ("total", (-1,))
    x, scale = np.full((2, 4), 3, np.float32), np.full((2, 1), 5, np.float32)
    outputs = model.run({"scale": scale, "x": x})
    assert outputs["scaled"].tolist() == (x * scale).tolist()
    assert outputs["total"].tolist() == [12.0, 12.0]


def test_a_tuple_of_outputs_is_numbered(file: Path) -> None:
    model = load_program(export(file, Pair(), X, dynamic={"x": {0: batch()}}))
    assert [(spec.name, spec.datatype) for spec in model.info.outputs] == [
        ("output_0", "FP64"),
        ("output_1", "BOOL"),
    ]


def test_a_free_dimension_stays_free(file: Path) -> None:
    dynamic = {"x": {0: batch(), 1: torch.export.Dim("length")}}
    model = load_program(export(file, Affine(), X, dynamic=dynamic))
    assert model.info.inputs[0].shape == (-1, -1)
    assert model.run({"x": np.zeros((2, 9), np.float32)})["output"].shape == (2, 9)
    assert model.memory_bound_rows() >= 1


def test_a_free_dimension_has_its_range_and_is_measured_within_it(file: Path) -> None:
    dynamic = {"x": {0: batch(), 1: torch.export.Dim("length", min=3, max=8)}}
    model = load_program(export(file, Affine(), X, dynamic=dynamic))
    (spec,) = model.info.inputs
    assert spec.outside((1, 8)) is None
    assert spec.outside((1, 9)) == "dimension 1 must be from 3 to 8, got 9"
    assert find_sample(model).inputs(2)["x"].shape == (2, 8)


def test_fewer_rows_than_the_program_accepts_are_padded_and_cut(file: Path) -> None:
    automatic = {"x": {0: torch.export.Dim("batch", min=4, max=64)}}
    model = load_program(export(file, Affine(), torch.ones(5, 4), dynamic=automatic))
    x = np.full((1, 4), 3, np.float32)
    assert model.run({"x": x})["output"].tolist() == [[7.0] * 4]


def test_a_program_of_exactly_one_row_is_served_row_by_row(file: Path) -> None:
    assert load_program(export(file, Affine(), torch.ones(1, 4))).info.max_rows == 1


def test_a_fixed_batch_is_rejected_with_the_remedy(file: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"dimension 0 of its inputs is x: 3: export it with"):
        load_program(export(file, Affine(), X))


def test_inputs_without_common_rows_are_rejected(file: Path) -> None:
    export(file, TwoNamed(), X, scale=torch.ones(1, 1), dynamic={"x": {0: batch()}, "scale": None})
    with pytest.raises(ModelLoadFailed, match=r"x: s\d+, scale: 1"):
        load_program(file)


def test_an_output_without_rows_is_rejected(file: Path) -> None:
    export(file, Flat(), X, dynamic={"x": {0: batch()}})
    with pytest.raises(
        ModelLoadFailed,
        match=r"output 'output' has shape \(\), the first dimension is not the rows",
    ):
        load_program(file)


def test_a_dtype_without_a_numpy_type_is_rejected_by_name(file: Path) -> None:
    export(file, Half(), X, dynamic={"x": {0: batch()}})
    with pytest.raises(ModelLoadFailed, match="output 'output': dtype bfloat16 is not served"):
        load_program(file)


def test_a_missing_file_is_named_with_the_field_to_correct(file: Path) -> None:
    with pytest.raises(ModelLoadFailed) as raised:
        load_program(file)
    assert f"there is no file '{file}'" in str(raised.value)
    assert "the path in spec.model.source" in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"not a program", b"PK\x03\x04 a broken archive"])
def test_a_file_that_is_no_program_is_rejected_in_one_line(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ModelLoadFailed) as raised:
        load_program(file)
    assert "is not a torch.export program" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_read_only_arrays_of_a_received_body_are_computed(file: Path) -> None:
    model = load_program(export(file, Affine(), X, dynamic={"x": {0: batch()}}))
    x = np.frombuffer(np.ones((2, 4), np.float32).tobytes(), np.float32).reshape(2, 4)
    assert model.run({"x": x})["output"].tolist() == [[3.0] * 4] * 2
