"""Encoders on other backends than eager torch."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers

from penstock_api.types.model import ModelBackend, ModelSpec, Task
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.models import precision
from penstock_runtime.models.encoders import precision as encoder_precision
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.models.load import ModelOptions, load
from penstock_runtime.request import Tensor
from tests.unit.runtime.models.encoders.conftest import texts

Directories = Callable[..., Path]


def served(
    folder: Path, backend: ModelBackend | None, cache: Path, task: str = "Embedding", dtype: DType = DType.AUTO
) -> Model:  # fmt: skip
    claim = {"claimName": "models", "path": folder.name}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    spec = ModelSpec.model_validate({"task": task, "source": source, "backend": backend})
    options = ModelOptions(threads=1, dtype=dtype, private_folder=cache)
    return load(spec, "served", folder.parent, options)


@pytest.mark.parametrize("backend", [ModelBackend.OPENVINO, ModelBackend.ONNX_RUNTIME])
@pytest.mark.parametrize("task", ["Embedding", "Classification"])
def test_a_backend_answers_as_the_untouched_encoder(
    directories: Directories, tmp_path: Path, backend: ModelBackend, task: str
) -> None:
    folder = directories("roberta", labels=task == "Classification")
    eager = served(folder, None, tmp_path, task)
    inputs = texts(3, 1, 17, 9, 17)
    (wanted,) = eager.run(inputs).values()
    for cached in (False, True):
        model = served(folder, backend, tmp_path, task)
        assert model.info.model_backend is not None
        assert (model.info.model_backend.name, model.info.model_backend.cached) == (backend, cached)
        (got,) = model.run(inputs).values()
        assert float(np.abs(np.subtract(got, wanted)).max()) <= 1e-4 * float(np.abs(wanted).max())
        assert (model.info.labels, model.info.task) == (eager.info.labels, eager.info.task)
        assert model.info.length_buckets
        assert model.memory_bound_rows() >= 1


def test_a_backend_without_the_requested_type_does_not_load(
    directories: Directories, tmp_path: Path
) -> None:
    with pytest.raises(ModelLoadFailed, match=r"spec\.model\.dtype is bfloat16"):
        served(directories("bert"), ModelBackend.ONNX_RUNTIME, tmp_path, dtype=DType.BFLOAT16)


@pytest.mark.parametrize("backend", [None, ModelBackend.ONNX_RUNTIME, ModelBackend.OPENVINO])
@pytest.mark.parametrize("family", ["bert", "electra", "roberta"])
def test_an_encoder_computes_in_int8_and_reports_the_error(
    directories: Directories,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: ModelBackend | None,
    family: str,
) -> None:
    # random weights have greater errors than trained ones, above the tolerance on some processors
    monkeypatch.setattr(precision, "TOLERANCES", {DType.INT8: 0.3})
    task = "Classification" if family == "roberta" else "Embedding"
    folder = directories(family, labels=task == "Classification")
    model = served(folder, backend, tmp_path, task, DType.INT8)
    assert model.info.model_backend is not None
    (candidate,) = model.info.model_backend.candidates
    assert candidate.name == (backend or "Eager")
    assert 1e-4 < (candidate.greatest_error or 0.0) <= 0.3
    inputs = texts(3, 1, 17, 9)
    (wanted,) = served(folder, None, tmp_path, task).run(inputs).values()
    (got,) = model.run(inputs).values()
    assert 0 < float(np.abs(np.subtract(got, wanted)).max()) <= 0.3 * float(np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
@pytest.mark.parametrize("backend", [None, ModelBackend.EAGER])
def test_a_requested_16_bit_type_is_compared_with_float32(
    directories: Directories, tmp_path: Path, dtype: DType, backend: ModelBackend | None
) -> None:
    state = served(directories("bert"), backend, tmp_path, dtype=dtype).info.model_backend
    assert state is not None
    (eager,) = state.candidates
    assert (state.name, eager.name, eager.message) == ("Eager", "Eager", None)
    assert eager.greatest_error is not None
    assert 1e-5 < eager.greatest_error <= precision.TOLERANCES[dtype]


def test_the_backend_auto_reports_the_error_of_a_requested_type(
    directories: Directories, tmp_path: Path
) -> None:
    for cached in (False, True):
        model = served(directories("bert"), ModelBackend.AUTO, tmp_path, dtype=DType.BFLOAT16)
        state = model.info.model_backend
        assert state is not None
        assert (state.name in ("Eager", "OpenVINO"), state.cached) == (True, cached)
        errors = {each.name: each.greatest_error for each in state.candidates}
        for name in {"Eager", state.name}:
            assert 1e-5 < (errors[name] or 0.0) <= precision.TOLERANCES[DType.BFLOAT16]


def test_a_type_that_is_not_requested_is_not_compared(
    directories: Directories, tmp_path: Path
) -> None:
    for dtype in (DType.AUTO, DType.FLOAT32):
        state = served(directories("bert"), None, tmp_path, dtype=dtype).info.model_backend
        assert state is not None
        assert state.candidates == ()


@pytest.mark.parametrize(
    ("dtype", "remedy"), [(DType.FLOAT16, "BFloat16 or Float32"), (DType.BFLOAT16, "Float32")]
)
def test_an_error_above_the_tolerance_of_the_type_is_named_with_the_difference(
    directories: Directories,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dtype: DType,
    remedy: str,
) -> None:
    monkeypatch.setattr(precision, "TOLERANCES", {dtype: 1e-7})
    said = rf"outputs in {dtype} differ from float32 by \d\.\de-\d+ .*tolerated are 1e-07: set spec\.model\.dtype to {remedy}"
    with pytest.raises(ModelLoadFailed, match=said):
        served(directories("bert"), None, tmp_path, dtype=dtype)


def test_a_model_that_does_not_compute_in_the_type_fails_the_load(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(directories("bert"), Task.EMBEDDING, DType.BFLOAT16)

    def run(_: dict[str, Tensor]) -> dict[str, Tensor]:
        raise AttributeError("'Int8Linear' object has no attribute 'weight'")

    monkeypatch.setattr(model, "run", run)
    with pytest.raises(ModelLoadFailed, match=r"does not compute in bfloat16 .*no attribute 'weight'"):  # fmt: skip
        precision_of(directories("bert"), model)


def test_an_encoder_without_linear_layers_has_no_int8(
    directories: Directories, tmp_path: Path
) -> None:
    config = transformers.OpenAIGPTConfig(vocab_size=1005, n_positions=64, n_embd=32, n_layer=1, n_head=2)  # fmt: skip
    folder = shutil.copytree(directories("bert"), tmp_path / "gpt")
    transformers.OpenAIGPTModel(config).save_pretrained(folder)
    with pytest.raises(ModelLoadFailed, match="Int8 is for linear layers, and the model has none"):
        load_encoder(folder, Task.EMBEDDING, DType.INT8)


def test_an_output_that_is_not_finite_fails_the_load(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(directories("bert"), Task.EMBEDDING, DType.BFLOAT16)
    run = model.run

    def overflow(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: np.full_like(values, np.inf) for name, values in run(inputs).items()}

    monkeypatch.setattr(model, "run", overflow)
    with pytest.raises(ModelLoadFailed, match=r"differ from float32 by (inf|nan)"):
        precision_of(directories("bert"), model)


def test_an_output_that_is_not_finite_in_a_batch_of_texts_of_different_lengths_fails_the_load(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(directories("bert"), Task.EMBEDDING, DType.BFLOAT16)
    run = model.run

    def overflow(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        scale = 1.0 if len(inputs["input_ids"]) == 1 else np.nan
        return {name: np.multiply(values, scale) for name, values in run(inputs).items()}

    monkeypatch.setattr(model, "run", overflow)
    with pytest.raises(ModelLoadFailed, match="differ from float32 by nan"):
        precision_of(directories("bert"), model)


def test_without_memory_for_float32_there_is_no_comparison(
    directories: Directories, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(encoder_precision, "free_memory_bytes", lambda: 0)
    assert precision_of(directories("bert"), None) is None
    assert "are not compared with float32" in caplog.text


def precision_of(folder: Path, model: Model | None) -> float | None:
    """Return the error of `model` in bfloat16, by default of the encoder in `folder`."""
    served_model = model or load_encoder(folder, Task.EMBEDDING, DType.BFLOAT16)
    return encoder_precision.precision_error(folder, Task.EMBEDDING, DType.BFLOAT16, served_model)


def test_other_weights_are_compiled_again(directories: Directories, tmp_path: Path) -> None:
    first = served(directories("bert"), ModelBackend.OPENVINO, tmp_path)
    second = served(directories("distilbert"), ModelBackend.OPENVINO, tmp_path)
    assert second.info.model_backend is not None
    assert not second.info.model_backend.cached
    inputs = texts(5)
    assert not np.allclose(first.run(inputs)["embedding"], second.run(inputs)["embedding"])
