"""A pod with `backend: Auto` says what runs its model, and the next pod does not measure again."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from penstock_api.pod_contract import ModelBackendState, State
from tests.integration.runtime.test_every_generation_ends import SOURCE
from tests.support.runtime.process import RuntimeProcess
from tests.unit.runtime.models.test_precision import write_product
from tests.unit.runtime.models.test_program_files import write_onnx
from tests.unit.runtime.protocols.openai.served import save_tiny_model


def model_backend(pod: RuntimeProcess) -> ModelBackendState:
    status, body = pod.get("/control/v1/state")
    assert status == 200
    state = State.model_validate_json(body).model_backend
    assert state is not None
    return state


def answer(pod: RuntimeProcess) -> list[float]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    body = json.dumps({"inputs": [tensor]}).encode()
    request = Request(f"{pod.client}/v2/models/affine/infer", data=body)  # noqa: S310 - loopback
    with urlopen(request, timeout=30) as reply:  # noqa: S310
        values: list[float] = json.load(reply)["outputs"][0]["data"]
        return values


def pod_environment(folder: Path, backend: str) -> dict[str, str]:
    """Write a model, and return the variables of a pod that serves it with a cache next to it."""
    write_onnx(folder / "m.onnx")
    claim = {"claimName": "models", "path": "m.onnx"}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    model = {"name": "affine", "source": source, "backend": backend}
    return {
        "PENSTOCK_MODEL": json.dumps(model),
        "PENSTOCK_MODEL_FOLDER": str(folder),
        "PENSTOCK_COMPILED_FOLDER": str(folder / "compiled"),
    }


def test_a_pod_reports_its_choice_and_the_next_one_takes_it_from_the_cache(
    launch: Any, tmp_path: Path
) -> None:
    environment = pod_environment(tmp_path, "Auto")
    first = launch(**environment)
    first.ready()
    assert answer(first) == [2.0, 3.0, 4.0]
    chosen = model_backend(first)
    assert chosen.name in ("ONNXRuntime", "OpenVINO")
    assert not chosen.cached
    assert {each.name for each in chosen.candidates if each.rows_per_second} == {
        "ONNXRuntime", "OpenVINO",
    }  # fmt: skip
    assert f"selected {chosen.name}: rows/s at 1, 8, 32 rows: " in first.log.read_text()
    first.kill()
    second = launch(**environment)
    second.ready()
    assert answer(second) == [2.0, 3.0, 4.0]
    assert model_backend(second) == chosen.model_copy(update={"cached": True})


def test_a_named_backend_that_cannot_run_the_model_ends_the_pod_with_its_reason(
    launch: Any, tmp_path: Path
) -> None:
    pod = launch(**pod_environment(tmp_path, "Compile"))
    assert pod.stopped() == 1
    message = (pod.folder / "termination-log").read_text()
    assert message.startswith("ModelLoadFailed: backend Compile cannot run the model: ")


def test_a_pod_reports_the_error_of_a_requested_type(launch: Any, tmp_path: Path) -> None:
    write_product(tmp_path)
    environment = pod_environment(tmp_path, "ONNXRuntime")
    model = json.loads(environment["PENSTOCK_MODEL"])
    model["source"]["persistentVolumeClaim"]["path"] = "model.onnx"
    pod = launch(**environment | {"PENSTOCK_MODEL": json.dumps({**model, "dtype": "Int8"})})
    pod.ready()
    (candidate,) = model_backend(pod).candidates
    assert 1e-5 < (candidate.greatest_error or 0.0) <= 0.1


def test_a_pod_that_generates_text_reports_the_error_of_a_requested_type_once(
    launch: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    save_tiny_model(folder)
    model = {"name": "tiny", "task": "TextGeneration", "source": SOURCE, "dtype": "BFloat16"}
    environment = {
        "PENSTOCK_MODEL": json.dumps(model),
        "PENSTOCK_MODEL_FOLDER": str(folder),
        "PENSTOCK_COMPILED_FOLDER": str(tmp_path / "compiled"),
        "PENSTOCK_COMPUTE_BACKEND": "Torch",
    }
    states = []
    for _ in range(2):
        pod = launch(**environment)
        pod.ready()
        states.append(model_backend(pod))
        pod.kill()
    first, second = states
    assert second == first.model_copy(update={"cached": True})
    assert not first.cached
    (candidate,) = first.candidates
    assert candidate.name == "Torch"
    assert (candidate.mean_error or 0.0) > 0
    assert 0.5 < (candidate.equal_token_share or 0.0) <= 1
