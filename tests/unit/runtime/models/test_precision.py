"""Models of tensors in a requested narrower type: compared with float32, reported, and refused with the difference."""

import platform
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.models import precision
from penstock_runtime.models.backends import openvino_backend
from penstock_runtime.models.device import processor
from penstock_runtime.models.device.int8_linear import Int8Affine
from penstock_runtime.models.export_program import ProgramSource
from penstock_runtime.models.load import ModelOptions, load
from penstock_runtime.models.python_factory import open_factory
from penstock_runtime.request import Tensor
from tests.unit.runtime.models.backends.conftest import (
    HERE,
    Network,
    assert_close,
    expected,
    rows,
    spec_of,
)
from tests.unit.runtime.models.programs import Affine, batch, export

NARROW = (DType.FLOAT16, DType.BFLOAT16, DType.INT8)


def program(folder: Path) -> Path:
    return export(
        folder / "model.pt2", Network().eval(), torch.ones(3, 6), dynamic={"x": {0: batch(64)}}
    )


def write_product(folder: Path, weight: Tensor | None = None) -> Path:
    """Write an `.onnx` file of y = x W, with W of 6 x 3, by default random."""
    if weight is None:
        weight = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def served(
    file: Path | str, folder: Path, dtype: DType, backend: ModelBackend | None = None
) -> Model:
    options = ModelOptions(threads=1, dtype=dtype, private_folder=folder / "compiled")
    return load(spec_of(file, backend), "served", folder, options)


def errors(model: Model) -> dict[str, float | None]:
    assert model.info.model_backend is not None
    return {each.name: each.greatest_error for each in model.info.model_backend.candidates}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", ["program", "network"])
def test_a_program_and_a_module_compute_in_a_requested_type_and_report_the_error(
    tmp_path: Path, dtype: DType, kind: str
) -> None:
    model = served(program(tmp_path) if kind == "program" else kind, tmp_path, dtype)
    (error,) = errors(model).values()
    assert error is not None
    assert 1e-5 < error <= precision.TOLERANCES[dtype]
    inputs = rows(7)
    got, wanted = model.run(inputs), expected(inputs)
    assert {name: array.dtype for name, array in got.items()} == {
        name: array.dtype for name, array in wanted.items()
    }
    difference = np.abs(np.subtract(got["scores"], wanted["scores"])).max()
    assert 0 < difference <= precision.TOLERANCES[dtype] * np.abs(wanted["scores"]).max()


def test_the_weights_of_a_narrow_program_are_stored_in_its_type(tmp_path: Path) -> None:
    half = ProgramSource(program(tmp_path), DType.BFLOAT16).native_model()
    graph = half._call.__closure__  # type: ignore[attr-defined]
    inner = next(cell.cell_contents for cell in graph if hasattr(cell.cell_contents, "module"))
    assert {each.dtype for each in inner.module.parameters()} == {torch.bfloat16}
    integers = ProgramSource(program(tmp_path), DType.INT8).native_model()
    assert list(integers._call.module.parameters()) == []  # type: ignore[attr-defined]


def test_the_reference_stays_as_it_was_written(tmp_path: Path) -> None:
    inputs = rows(5)
    wanted = expected(inputs)["scores"]
    for source in (ProgramSource(program(tmp_path), DType.INT8), open_factory(f"{HERE}:network", {}, DType.BFLOAT16)):  # fmt: skip
        source.native_model()  # type: ignore[union-attr]
        untouched = source.untouched().run(inputs)["scores"]  # type: ignore[union-attr]
        assert_close(untouched, wanted, 1e-6)


def test_int8_rounds_weights_by_row_and_inputs_by_their_range() -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(16, 64) * torch.logspace(-3, 3, 16)[:, None], torch.randn(16)
    layer, x = Int8Affine(weight, bias, torch.nn.functional.relu), torch.randn(2, 9, 64)
    wanted = x @ weight.T + bias
    scale = wanted.abs().amax((0, 1))
    assert float(((layer(x) - wanted).abs().amax((0, 1)) / scale).max()) < 0.03
    torch.testing.assert_close(layer.activated(x), layer(x).relu())
    torch.testing.assert_close(layer.added(x, wanted), layer(x) + wanted)


@pytest.mark.parametrize(
    ("flags", "onnx_runtime", "own"),
    [("avx512_vnni avx_vnni", 8, 8), ("avx2 avx_vnni", 8, 7), ("avx2 avx512f", 7, 7)],
)
def test_inputs_have_the_bits_whose_products_the_kernels_add_without_overflow(
    monkeypatch: pytest.MonkeyPatch, flags: str, onnx_runtime: int, own: int
) -> None:
    monkeypatch.setattr(processor, "this_processor", lambda: f"x86_64\nflags\t\t: fpu {flags}")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    layer = Int8Affine(torch.ones(2, 4), None, torch.nn.functional.relu)
    assert layer._in_seven_bits == (own == 7)
    assert processor.has_int8_products() == (onnx_runtime == 8)


def test_openvino_rounds_weights_by_output_and_leaves_other_constants(tmp_path: Path) -> None:
    weight = np.linspace(-3, 5, 18, dtype=np.float32).reshape(6, 3) * np.array(
        [1, 1e-3, 1e3], np.float32
    )
    graph = openvino_backend.read(write_product(tmp_path, weight))
    assert openvino_backend.int8_weights(graph) == 1
    (product,) = (each for each in graph.get_ordered_ops() if each.get_type_name() == "MatMul")
    integers, scale = (
        product.input_value(1).get_node().input_value(index).get_node() for index in (0, 1)
    )
    stored = integers.input_value(0).get_node().data
    assert (stored.dtype, np.abs(stored).max(0).tolist()) == (np.int8, [127, 127, 127])
    step = np.abs(weight).max(0) / 127
    assert (np.abs(stored * scale.data - weight) <= 0.501 * step).all()
    assert openvino_backend.int8_weights(graph) == 0


@pytest.mark.parametrize("backend", [None, ModelBackend.OPENVINO])
def test_an_onnx_file_computes_in_int8_and_its_files_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: ModelBackend | None
) -> None:
    name = str(backend or ModelBackend.ONNX_RUNTIME)
    file = write_product(tmp_path)
    exact = served(file, tmp_path, DType.AUTO)
    inputs = rows(9)
    for cached in (False, True):
        model = served(file, tmp_path, DType.INT8, backend)
        assert model.info.model_backend is not None
        assert (model.info.model_backend.name, model.info.model_backend.cached) == (name, cached)
        assert 1e-5 < (errors(model)[name] or 0.0) <= 1e-1
        difference = np.abs(np.subtract(model.run(inputs)["y"], exact.run(inputs)["y"])).max()
        assert 0 < difference <= 0.1 * np.abs(exact.run(inputs)["y"]).max()
    assert "pre-processing" not in caplog.text


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.INT8])
def test_auto_takes_a_backend_that_computes_in_the_type(tmp_path: Path, dtype: DType) -> None:
    for cached in (False, True):
        model = served(program(tmp_path), tmp_path, dtype, ModelBackend.AUTO)
        state = model.info.model_backend
        assert state is not None
        assert state.cached is cached
        known = {each.name: each for each in state.candidates}
        assert 1e-5 < (known[state.name].greatest_error or 0.0) <= precision.TOLERANCES[dtype]
        assert f"spec.model.dtype is {dtype}" in str(known["Compile"].message)
        if dtype is DType.BFLOAT16:
            assert str(dtype) in str(known["ONNXRuntime"].message)
        else:
            assert len(known["OpenVINO"].rows_per_second) == len(state.batch_sizes)


def test_auto_takes_no_narrower_type_by_itself(tmp_path: Path) -> None:
    model = served(program(tmp_path), tmp_path, DType.AUTO, ModelBackend.AUTO)
    assert all(error is None or error < 1e-5 for error in errors(model).values())


@pytest.mark.parametrize(
    ("dtype", "backend", "words"),
    [
        (DType.BFLOAT16, ModelBackend.ONNX_RUNTIME, "it computes in float32 and int8 on CPUs"),
        (DType.INT8, ModelBackend.COMPILE, "it computes in float32 only"),
        (DType.FLOAT16, ModelBackend.COMPILE, "it computes in float32 only"),
    ],
)
def test_a_backend_that_lacks_the_type_does_not_load(
    tmp_path: Path, dtype: DType, backend: ModelBackend, words: str
) -> None:
    with pytest.raises(ModelLoadFailed) as raised:
        served(program(tmp_path), tmp_path, dtype, backend)
    assert str(raised.value).startswith(f"backend {backend} cannot run the model: {words}")
    assert str(raised.value).endswith("or remove spec.model.dtype")


def test_openvino_computes_in_a_type_that_the_processor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ov = openvino_backend.openvino()
    has = "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if has:
        model = served(write_product(tmp_path), tmp_path, DType.BFLOAT16, ModelBackend.OPENVINO)
        assert 0 < (errors(model)["OpenVINO"] or 0.0) <= 1e-1
    monkeypatch.setattr(openvino_backend, "_CAPABILITIES", {DType.BFLOAT16: "NO SUCH"})
    (tmp_path / "other").mkdir()
    with pytest.raises(ModelLoadFailed, match="this processor has no bfloat16 instructions"):
        served(write_product(tmp_path / "other"), tmp_path / "other", DType.BFLOAT16, ModelBackend.OPENVINO)  # fmt: skip


def test_what_int8_does_not_have_is_named(tmp_path: Path) -> None:
    file = export(tmp_path / "a.pt2", Affine(), torch.ones(3, 6), dynamic={"x": {0: batch(64)}})
    with pytest.raises(ModelLoadFailed, match="Int8 is for linear layers, and the model has none"):
        served(file, tmp_path, DType.INT8)
    for backend in (ModelBackend.ONNX_RUNTIME, ModelBackend.OPENVINO):
        with pytest.raises(ModelLoadFailed, match="it has no product with a constant matrix"):
            served(file, tmp_path, DType.INT8, backend)
    with pytest.raises(ModelLoadFailed, match=r"does not compute in int8: torch\.export does not"):
        served("branching", tmp_path, DType.INT8)
    with pytest.raises(ModelLoadFailed, match="no backend computes the model in int8: OpenVINO: "):
        served(file, tmp_path, DType.INT8, ModelBackend.AUTO)


def test_a_torch_without_int8_operators_is_named_and_auto_takes_another_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch, "quantize_per_channel")
    with pytest.raises(ModelLoadFailed, match="torch cannot compute linear layers in int8") as raised:  # fmt: skip
        served(program(tmp_path), tmp_path, DType.INT8)
    assert str(raised.value).endswith("set spec.model.dtype to BFloat16 or Float32")
    state = served(program(tmp_path), tmp_path, DType.INT8, ModelBackend.AUTO).info.model_backend
    assert state is not None
    assert state.name in ("ONNXRuntime", "OpenVINO")
    messages = {each.name: each.message for each in state.candidates}
    assert "cannot compute linear layers in int8" in str(messages["Eager"])


def test_a_model_of_its_own_code_has_its_own_types(tmp_path: Path) -> None:
    spec = spec_of("x", None).model_dump(by_alias=True, mode="json", exclude_none=True)
    spec["source"]["module"]["factory"] = "tests.unit.runtime.models.programs:own"
    own = type(spec_of("x", None)).model_validate(spec, strict=False)
    with pytest.raises(ModelLoadFailed, match="does not compute in int8: its factory returns a"):
        load(own, "served", tmp_path, ModelOptions(threads=1, dtype=DType.INT8))


@pytest.mark.parametrize("dtype", NARROW)
def test_an_error_above_the_tolerance_is_named_with_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: DType
) -> None:
    monkeypatch.setattr(precision, "TOLERANCES", MappingProxyType({dtype: 1e-7}))
    said = rf"outputs in {dtype} differ from float32 by \d\.\de-\d+ .*tolerated are 1e-07: set spec\.model\.dtype to"
    with pytest.raises(ModelLoadFailed, match=said):
        served(program(tmp_path), tmp_path, dtype)
    if dtype is DType.INT8:
        with pytest.raises(ModelLoadFailed, match="tolerated for int8 is 1e-07"):
            served(write_product(tmp_path), tmp_path, dtype)
