"""Encoders on other backends than eager torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock_api.types.model import ModelBackend, ModelSpec
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.models.load import ModelOptions, load
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


def test_another_type_than_float32_has_eager_torch_only(
    directories: Directories, tmp_path: Path
) -> None:
    with pytest.raises(ModelLoadFailed, match=r"spec\.model\.dtype is bfloat16"):
        served(directories("bert"), ModelBackend.OPENVINO, tmp_path, dtype=DType.BFLOAT16)


def test_other_weights_are_compiled_again(directories: Directories, tmp_path: Path) -> None:
    first = served(directories("bert"), ModelBackend.OPENVINO, tmp_path)
    second = served(directories("distilbert"), ModelBackend.OPENVINO, tmp_path)
    assert second.info.model_backend is not None
    assert not second.info.model_backend.cached
    inputs = texts(5)
    assert not np.allclose(first.run(inputs)["embedding"], second.run(inputs)["embedding"])
