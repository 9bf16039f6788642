"""Auto takes the fastest that agrees; a named backend that cannot run the model is an error; both are cached."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from typing_extensions import override

from penstock_api.pod_contract import MAX_LOAD_SECONDS
from penstock_api.types.model import ModelBackend, Task
from penstock_runtime.engine.model import Model, ModelInfo, ModelLoadFailed
from penstock_runtime.models.backends import selection
from penstock_runtime.models.backends.base import Backend, BackendFailed, Call, Program
from penstock_runtime.models.backends.cache import CompiledCache, key_of
from penstock_runtime.models.backends.onnx_runtime import OnnxRuntimeBackend
from penstock_runtime.models.backends.selection import Loader
from penstock_runtime.models.export_program import ProgramSource
from penstock_runtime.models.load import load
from penstock_runtime.models.python_factory import FactorySource
from tests.unit.runtime.models.backends.conftest import (
    Load,
    assert_close,
    expected,
    network,
    options,
    rows,
    spec_of,
)

AUTO, OPENVINO, ONNX_RUNTIME = (
    ModelBackend.AUTO,
    ModelBackend.OPENVINO,
    ModelBackend.ONNX_RUNTIME,
)


@dataclass
class Doctored(Backend):
    """ONNX Runtime under another name, whose builds are counted and whose answers are changed."""

    name: ModelBackend = OPENVINO
    packages: tuple[str, ...] = ("onnxruntime",)
    is_machine_code: bool = False
    change: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda arrays: arrays
    builds: list[Path] = field(default_factory=list)
    inner: Backend = field(default_factory=OnnxRuntimeBackend)

    @override
    def build(self, program: Program, folder: Path, threads: int) -> None:
        self.builds.append(folder)
        self.inner.build(program, folder, threads)

    @override
    def open(self, folder: Path, info: ModelInfo, threads: int) -> Call:
        call = self.inner.open(folder, info, threads)
        return lambda arrays: self.change(call(arrays))


def louder(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [arrays[0] * np.float32(1.25), *arrays[1:]]


def refuse(arrays: list[np.ndarray]) -> list[np.ndarray]:
    raise ValueError("no kernel for operator 'Erf'")


def loader(program: Path, *backends: Backend, clock: Callable[[], float] | None = None) -> Loader:
    source = ProgramSource(program)
    folder = program.parent / "cache"
    cache = CompiledCache(
        folder / "shared",
        folder / "private",
        lambda: key_of(source.digest(), Task.TENSOR, 1, "test"),
    )
    more = {} if clock is None else {"clock": clock}
    return Loader(source, cache, 1, backends=backends, **more)


def state(model: Model) -> dict[str, object]:
    assert model.info.model_backend is not None
    return model.info.model_backend.model_dump()


@pytest.mark.long  # inductor takes most of it
def test_auto_takes_the_fastest_and_reports_what_the_others_would_have_given(
    program: Path, load_on: Load
) -> None:
    model = load_on(program, AUTO)
    choice = model.info.model_backend
    assert choice is not None
    assert not choice.cached
    assert choice.batch_sizes == (1, 8, 32)
    candidates = {each.name: each for each in choice.candidates}
    assert list(candidates)[:3] == ["Eager", "OpenVINO", "ONNXRuntime"]
    measured = {
        name: np.prod(each.rows_per_second)
        for name, each in candidates.items()
        if each.rows_per_second
    }
    assert choice.name == max(measured, key=lambda name: measured[name])
    inputs = rows(5)
    assert_close(model.run(inputs)["scores"], expected(inputs)["scores"])


def test_auto_goes_on_without_a_backend_that_disagrees(program: Path) -> None:
    wrong = Doctored(change=louder)
    model = loader(program, wrong, Doctored(ONNX_RUNTIME)).load(AUTO)
    candidates = {each.name: each for each in model.info.model_backend.candidates}  # type: ignore[union-attr]
    message = candidates["OpenVINO"].message
    assert message is not None
    assert message.startswith(
        "output 'scores' differs from the untouched model by 2.5e-01 of its greatest value"
    )
    assert candidates["OpenVINO"].rows_per_second == ()
    assert candidates["ONNXRuntime"].message is None
    assert state(model)["name"] in ("Eager", "ONNXRuntime")


def test_auto_goes_on_without_a_backend_that_is_not_installed(program: Path) -> None:
    model = loader(program, Doctored(packages=("no-such-runtime",))).load(AUTO)
    (own, absent) = model.info.model_backend.candidates  # type: ignore[union-attr]
    assert (own.name, state(model)["name"]) == ("Eager", "Eager")
    assert absent.message == "no-such-runtime is not installed in the image"


def test_auto_starts_no_compiler_after_its_time_limit(program: Path) -> None:
    ticks = iter(np.arange(0.0, 1e9, selection.BUILD_SECONDS * 0.6))
    first, late = Doctored(OPENVINO), Doctored(ONNX_RUNTIME)
    model = loader(program, first, late, clock=lambda: float(next(ticks))).load(AUTO)
    assert (len(first.builds), len(late.builds)) == (1, 0)
    rejected = model.info.model_backend.candidates[-1]  # type: ignore[union-attr]
    assert rejected.message == "not tried: the time limit of 60 s"


def test_auto_tries_a_backend_that_the_time_limit_left_out_at_the_next_load(program: Path) -> None:
    backends = Doctored(OPENVINO), Doctored(ONNX_RUNTIME)

    def late() -> Model:
        ticks = iter(np.arange(0.0, 1e9, selection.BUILD_SECONDS * 0.6))
        return loader(program, *backends, clock=lambda: float(next(ticks))).load(AUTO)

    assert not state(late())["cached"]
    assert not state(late())["cached"]  # the first has its files, and the second no time again
    assert state(late())["cached"]
    assert [len(each.builds) for each in backends] == [1, 0]
    for file in program.parent.rglob("Auto.json"):
        file.unlink()
    assert not state(loader(program, *backends).load(AUTO))["cached"]
    assert state(loader(program, *backends).load(AUTO))["cached"]
    assert [len(each.builds) for each in backends] == [1, 1]


def test_auto_is_not_kept_where_the_volume_had_no_room(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr("tempfile.mkdtemp", full)
        rejected = loader(program, Doctored()).load(AUTO).info.model_backend.candidates[-1]  # type: ignore[union-attr]
        assert "its files cannot be written: [Errno 28]" in str(rejected.message)
    backend = Doctored()
    assert not state(loader(program, backend).load(AUTO))["cached"]
    assert len(backend.builds) == 1


def test_what_killed_pods_left_is_removed_by_the_next_that_compiles(program: Path) -> None:
    loader(program, Doctored()).load(OPENVINO)
    (file,) = program.parent.rglob("OpenVINO.json")
    recent, abandoned = file.parent / ".OpenVINO-a", file.parent / ".OpenVINO-b"
    for folder in (recent, abandoned):
        folder.mkdir()
        (folder / "half").write_text("half")
    os.utime(abandoned, (0, time.time() - MAX_LOAD_SECONDS - 60))
    for root in (program.parent / "cache").rglob("OpenVINO"):
        shutil.rmtree(root)
    loader(program, Doctored()).load(OPENVINO)
    assert (recent.exists(), abandoned.exists()) == (True, False)


def test_a_choice_that_cannot_be_stored_leaves_nothing(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("json.dump", full)
    loader(program, Doctored()).load(OPENVINO)
    (folder,) = (program.parent / "cache" / "shared").iterdir()
    assert [each.name for each in folder.iterdir()] == ["OpenVINO"]


def test_a_compiler_in_the_image_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for compiler in (None, "/usr/bin/g++"):
        monkeypatch.setattr("shutil.which", lambda _, compiler=compiler: compiler)
        keys.add(key_of("d", Task.TENSOR, 1, "a"))
    assert len(keys) == 2


def test_a_model_is_only_read_for_its_key_where_files_are_kept(
    tmp_path: Path, load_on: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[object]()

    def digest(source: FactorySource) -> str:
        read.append(source)
        return "d"

    monkeypatch.setattr(FactorySource, "digest", digest)
    load_on("network", ModelBackend.EAGER)
    assert read == []
    load_on("network", OPENVINO)
    assert len(read) == 1


class Stateful(torch.nn.Sequential):
    """A module with a state that is no tensor."""

    penstock_inputs = (("x", "FP32", (-1, 6)),)
    penstock_outputs = (("y", "FP32", (-1, 3)),)

    def get_extra_state(self) -> object:
        return object()


@pytest.mark.filterwarnings("ignore")  # these layers are deprecated
def test_packed_weights_are_part_of_the_digest() -> None:
    def source(seed: int) -> FactorySource:
        torch.manual_seed(seed)
        plain = Stateful(torch.nn.Linear(6, 3))
        module = torch.ao.quantization.quantize_dynamic(plain, {torch.nn.Linear})  # type: ignore[no-untyped-call]
        return FactorySource(module, "a:b", {})

    assert source(1).digest() == source(1).digest() != source(2).digest()


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (Doctored(change=louder), "differs from the untouched model by 2.5e-01"),
        (Doctored(change=refuse), "it fails on a batch of 1: ValueError: no kernel for operator"),
        (Doctored(packages=("no-such-runtime",)), "no-such-runtime is not installed"),
    ],
)
def test_a_named_backend_that_cannot_run_the_model_does_not_load(
    program: Path, backend: Doctored, words: str
) -> None:
    with pytest.raises(ModelLoadFailed) as raised:
        loader(program, backend).load(OPENVINO)
    assert str(raised.value).startswith("backend OpenVINO cannot run the model: ")
    assert words in str(raised.value)
    assert "set spec.model.backend to Auto, or remove it" in str(raised.value)


@pytest.mark.parametrize("wanted", [AUTO, OPENVINO])
def test_the_second_load_compiles_and_measures_nothing(program: Path, wanted: ModelBackend) -> None:
    backend = Doctored()
    first = loader(program, backend).load(wanted)
    source = ProgramSource(program)
    source._program = None  # type: ignore[assignment]  # not even read, unless eager torch was taken
    again = loader(program, backend)
    if state(first)["name"] != "Eager":
        again = Loader(source, again.cache, 1, backends=(backend,))
    second = again.load(wanted)
    assert len(backend.builds) == 1
    assert state(second) == {**state(first), "cached": True}
    inputs = rows(3)
    np.testing.assert_array_equal(first.run(inputs)["scores"], second.run(inputs)["scores"])
    assert second.info.inputs == first.info.inputs


def test_a_broken_compiled_file_is_built_again(program: Path) -> None:
    backend = Doctored()
    loader(program, backend).load(OPENVINO)
    (file,) = program.parent.rglob("model.onnx")
    file.write_bytes(b"broken")
    model = loader(program, backend).load(OPENVINO)
    assert len(backend.builds) == 2
    assert not state(model)["cached"]


def test_a_broken_choice_is_made_again(program: Path) -> None:
    backend = Doctored()
    loader(program, backend).load(OPENVINO)
    (file,) = program.parent.rglob("OpenVINO.json")
    file.write_text('{"info": 3}')
    assert not state(loader(program, backend).load(OPENVINO))["cached"]


def test_a_module_whose_code_changed_is_not_answered_from_the_cache(
    tmp_path: Path, load_on: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_on("network", OPENVINO)
    changed = network()
    before = type(changed).forward
    monkeypatch.setattr(type(changed), "forward", lambda self, x: before(self, x + 1), raising=True)
    model = load_on("network", OPENVINO)
    assert not state(model)["cached"]
    inputs = rows(3)
    wanted = expected(inputs)["scores"]
    assert_close(model.run(inputs)["scores"], wanted)


def test_code_is_kept_only_where_no_other_pod_writes(program: Path) -> None:
    backend = Doctored(ModelBackend.COMPILE, is_machine_code=True)
    loader(program, backend).load(ModelBackend.COMPILE)
    folder = program.parent / "cache"
    assert not (folder / "shared").exists()
    assert list((folder / "private").rglob("model.onnx"))


def test_a_read_only_volume_costs_nothing_but_the_private_folder(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    loader(program, Doctored()).load(OPENVINO)
    assert list((program.parent / "cache" / "private").rglob("OpenVINO.json"))


def test_other_content_has_another_key(program: Path) -> None:
    source = ProgramSource(program)
    before = source.digest()
    program.write_bytes(program.read_bytes() + b" ")
    assert source.digest() != before
    assert key_of(before, Task.TENSOR, 1, "a") != key_of(before, Task.TENSOR, 2, "a")
    assert key_of(before, Task.TENSOR, 1, "a") != key_of(before, Task.TENSOR, 1, "b")


def test_a_model_of_its_own_code_has_no_other_backend(tmp_path: Path) -> None:
    spec = spec_of("x", OPENVINO).model_dump(by_alias=True, mode="json", exclude_none=True)
    spec["source"]["module"]["factory"] = "tests.unit.runtime.models.programs:own"
    own = type(spec_of("x", None)).model_validate_json(json.dumps(spec))
    with pytest.raises(ModelLoadFailed, match="its factory returns a Model of its own code"):
        load(own, "served", tmp_path, options(tmp_path))


def test_an_unset_backend_measures_and_writes_nothing(program: Path, load_on: Load) -> None:
    model = load_on(program, None)
    assert state(model) == {
        "name": "Eager", "batch_sizes": (), "candidates": (), "cached": False,
    }  # fmt: skip
    assert not (program.parent / "compiled").exists()


def test_a_failure_to_export_is_every_compilers_reason(load_on: Load) -> None:
    choice = load_on("branching", AUTO).info.model_backend
    assert choice is not None
    assert choice.name == "Eager"
    messages = {each.message for each in choice.candidates if each.name != "Eager"}
    assert len(messages) == 1
    assert str(messages.pop()).startswith("torch.export does not support the model")


def test_backend_failed_is_no_model_load_failed() -> None:
    assert not issubclass(BackendFailed, ModelLoadFailed)
