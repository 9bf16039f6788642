"""The name of a study: equal for pods of the same Job, another for everything that makes measurements incomparable."""

import json
from pathlib import Path

import pytest

from penstock_api import names
from penstock_tuner import study_name as naming
from penstock_tuner.options import objective, parser
from penstock_tuner.study_name import gpus, processor, study_name

ENVIRON = {
    names.ENV_MODEL: json.dumps({"task": "Tensor", "name": "demo"}),
    names.ENV_POD_NAME: "chat-tune-a",
    names.ENV_POD_UID: "1",
    names.ENV_HOST: "10.0.0.1",
    "OMP_NUM_THREADS": "2",
}


def name(*words: str, **variables: str) -> str:
    args = parser().parse_args(["--objective-ms=500", *words])
    return study_name({**ENVIRON, **variables}, args, objective(args), generates=False)


def test_the_next_pod_of_a_job_continues_the_study() -> None:
    other = {names.ENV_POD_NAME: "chat-tune-b", names.ENV_POD_UID: "2", names.ENV_HOST: "10.0.0.2", "HOSTNAME": "b"}  # fmt: skip
    assert name() == name(**other)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OMP_NUM_THREADS", "1"), (names.ENV_DTYPE, "Float32"), ("PENSTOCK_COMPILE", "true")],
)
def test_another_environment_is_another_study(variable: str, value: str) -> None:
    assert name() != name(**{variable: value})


@pytest.mark.parametrize(
    "word",
    ["--round-seconds=1", "--max-batch-size=8", "--rows=2", "--backends=Eager", "--study=a", "--percent=90"],
)  # fmt: skip
def test_other_options_are_another_study(word: str) -> None:
    assert name() != name(word)


def test_another_processor_gpu_or_package_is_another_study(monkeypatch: pytest.MonkeyPatch) -> None:
    before = name()
    with monkeypatch.context() as changed:
        changed.setattr(naming, "processor", lambda: ("other",))
        assert name() != before
    with monkeypatch.context() as changed:
        changed.setattr(naming, "gpus", lambda: ["Model: B"])
        assert name() != before
    monkeypatch.setattr(naming, "version", lambda _package: "9.9")
    assert name() != before


def test_the_models_of_gpus_are_those_of_the_driver(tmp_path: Path) -> None:
    for number, model in enumerate(("NVIDIA H100", "NVIDIA A100", "NVIDIA H100")):
        (tmp_path / f"{number}").mkdir()
        text = f"Model: \t\t {model}\nIRQ:   \t\t {number}\nGPU UUID: \t GPU-{number}\n"
        (tmp_path / f"{number}" / "information").write_text(text)
    assert gpus(tmp_path) == ["Model: \t\t NVIDIA A100", "Model: \t\t NVIDIA H100"]
    assert gpus(tmp_path / "absent") == []


def test_a_processor_has_its_model(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: A\nprocessor\t: 1\nmodel name\t: A\n")
    assert processor(file)[1:] == ("model name\t: A",)
    assert len(processor(tmp_path / "absent")) == 1
