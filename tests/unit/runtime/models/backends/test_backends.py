"""Each backend answers as eager torch does, from each kind of source."""

import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.dynamic.model_io import checked
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.request import Tensor
from tests.unit.runtime.models.backends.conftest import Load, assert_close, expected, rows
from tests.unit.runtime.models.programs import TwoNamed, batch, export

NATIVE, OTHERS = ModelBackend.EAGER, (ModelBackend.OPENVINO, ModelBackend.ONNX_RUNTIME)


def assert_answers(model: Model) -> None:
    for number in (1, 2, 7, 64):
        inputs = rows(number)
        got, wanted = checked(model.run(inputs), model.info.outputs, number), expected(inputs)
        assert_close(got["scores"], wanted["scores"])
        np.testing.assert_array_equal(got["positive"], wanted["positive"])


@pytest.mark.parametrize("backend", [NATIVE, *OTHERS])
@pytest.mark.parametrize("kind", ["program", "module"])
def test_a_backend_answers_as_the_untouched_model(
    program: Path, load_on: Load, backend: ModelBackend, kind: str
) -> None:
    model = load_on(program if kind == "program" else "network", backend)
    assert_answers(model)
    assert model.info.model_backend is not None
    assert model.info.model_backend.name == backend
    assert model.memory_bound_rows() >= 1


def test_generated_code_answers_as_the_untouched_model(program: Path, load_on: Load) -> None:
    model = load_on(program, ModelBackend.COMPILE)
    assert_answers(model)
    assert_answers(load_on(program, ModelBackend.COMPILE))  # from its files


@pytest.mark.parametrize("backend", OTHERS)
def test_arrays_over_a_received_body_are_computed(
    program: Path, load_on: Load, backend: ModelBackend
) -> None:
    inputs = rows(2)
    received = np.frombuffer(inputs["x"].tobytes(), np.float32).reshape(2, 6)
    got = load_on(program, backend).run({"x": received})["scores"]
    assert_close(got, expected(inputs)["scores"])


@pytest.mark.parametrize("backend", OTHERS)
def test_read_only_arrays_of_several_inputs_are_all_computed(
    tmp_path: Path, load_on: Load, backend: ModelBackend
) -> None:
    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 1.5, y * 1.5

    ones, twos = torch.ones(3, 256), torch.full((3, 256), 2.0)
    dynamic = {"x": {0: batch()}, "y": {0: batch()}}
    model = load_on(export(tmp_path / "both.pt2", Both(), ones, twos, dynamic=dynamic), backend)
    for _ in range(20):
        received: dict[str, Tensor] = {
            name: np.frombuffer(np.full(256, value, np.float32).tobytes(), np.float32)[None]
            for name, value in (("x", 1), ("y", 2))
        }
        first, second = model.run(received).values()
        np.testing.assert_array_equal(first, 1.5)
        np.testing.assert_array_equal(second, 3.0)


@pytest.mark.parametrize("backend", OTHERS)
def test_the_next_batch_does_not_overwrite_an_answer(
    program: Path, load_on: Load, backend: ModelBackend
) -> None:
    model = load_on(program, backend)
    first = model.run(rows(4))["scores"]
    before = first.copy()
    model.run(rows(4, seed=9))
    np.testing.assert_array_equal(first, before)


@pytest.mark.parametrize("backend", OTHERS)
def test_names_and_minimum_rows_of_a_program_hold(
    tmp_path: Path, load_on: Load, backend: ModelBackend
) -> None:
    dim = torch.export.Dim("batch", min=4, max=32)
    dynamic = {"x": {0: dim}, "scale": {0: dim}}
    file = tmp_path / "two.pt2"
    export(file, TwoNamed(), torch.ones(5, 4), scale=torch.ones(5, 1), dynamic=dynamic)
    x, scale = np.full((2, 4), 3, np.float32), np.full((2, 1), 5, np.float32)
    for _ in range(2):  # compiled, and from its files
        outputs = load_on(file, backend).run({"scale": scale, "x": x})
        assert outputs["scaled"].tolist() == (x * scale).tolist()
        assert outputs["total"].tolist() == [12.0, 12.0]


def test_conversion_reports_nothing_to_openvinos_maker(program: Path, load_on: Load) -> None:
    """Its package sends an event over the network otherwise."""
    load_on(program, ModelBackend.OPENVINO)
    assert "openvino.tools.ovc.telemetry_utils" in sys.modules
    assert sys.modules.get("openvino_telemetry") is None


def test_a_free_dimension_stays_free(tmp_path: Path, load_on: Load) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    dynamic = {"x": {0: batch(), 1: torch.export.Dim("length")}}
    file = export(tmp_path / "free.pt2", Doubled(), torch.ones(3, 4), dynamic=dynamic)
    model = load_on(file, ModelBackend.OPENVINO)
    assert model.run({"x": np.ones((2, 9), np.float32)})["output"].tolist() == [[2.0] * 9] * 2


def test_a_module_that_cannot_be_exported_is_named_with_the_reason(load_on: Load) -> None:
    with pytest.raises(ModelLoadFailed) as raised:
        load_on("branching", ModelBackend.OPENVINO)
    assert "backend OpenVINO cannot run the model: torch.export does not support the model" in str(
        raised.value
    )
    assert "set spec.model.backend to Auto, or remove it" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_model_with_an_operator_that_openvino_lacks_runs_on_another_backend(
    tmp_path: Path, load_on: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)  # no compiler: `Compile` is left out too

    class SingularValues(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            values: torch.Tensor = torch.linalg.svdvals(x)
            return values

    matrices = torch.randn(3, 4, 4)
    file = export(tmp_path / "svd.pt2", SingularValues(), matrices, dynamic={"x": {0: batch()}})
    reason = "OpenVINO cannot compile it: OpConversionFailure: No conversion rule found for operations: aten"
    root = logging.getLogger()
    logs = root.level, root.filters[:], root.handlers[:]
    state = load_on(file, ModelBackend.AUTO).info.model_backend
    assert (root.level, root.filters, root.handlers) == logs
    assert state is not None
    messages = {candidate.name: candidate.message for candidate in state.candidates}
    assert (messages[ModelBackend.OPENVINO] or "").startswith(reason)
    with pytest.raises(ModelLoadFailed, match=re.escape(reason)) as raised:
        load_on(file, ModelBackend.OPENVINO)
    assert "set spec.model.backend to Auto, or remove it" in str(raised.value)


def test_compiling_without_a_compiler_is_named_with_the_remedy(
    program: Path, load_on: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(
        ModelLoadFailed, match=r"there is no C\+\+ compiler \(g\+\+ or clang\+\+\): put g\+\+ into"
    ):
        load_on(program, ModelBackend.COMPILE)
