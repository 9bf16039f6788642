"""The command lines for kind, which the tests do not run: they need a Docker engine."""

from pathlib import Path

import pytest
import yaml

from tests.support.cluster import kind
from tests.support.cluster.images.recipes import OPERATOR, PROMETHEUS, RUNTIME
from tests.support.cluster.places import CHECKOUT


def words(command: list[str | Path]) -> list[str]:
    return [str(word) for word in command]


def test_kind_is_chosen_by_name_alone() -> None:
    assert kind.chosen({"PENSTOCK_DEMO_ON": "kind"})
    assert not kind.chosen({"PENSTOCK_DEMO_ON": ""})
    assert not kind.chosen({})
    with pytest.raises(kind.KindUnusableError, match="ON=minikube: `kind` is the only choice"):
        kind.chosen({"PENSTOCK_DEMO_ON": "minikube"})


def test_a_machine_without_kind_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kind.KindUnusableError, match="needs kind, kubectl, docker on the PATH"):
        kind.check()


def test_kinds_envoy_is_the_charts() -> None:
    values = yaml.safe_load((CHECKOUT / "charts" / "penstock" / "values.yaml").read_text())
    image = values["gateway"]["envoyImage"]
    assert f"{image['registry']}/{image['repository']}:{image['tag']}" == kind.ENVOY_IMAGE


def test_the_cluster_is_created_and_deleted_by_one_name() -> None:
    create, delete = words(kind.create_command(Path("/c/k"))), words(kind.delete_command())
    assert create[:5] == ["kind", "create", "cluster", "--name", "penstock-demo"]
    assert delete == ["kind", "delete", "cluster", "--name", "penstock-demo"]
    assert kind.CONTEXT == "kind-penstock-demo"


def test_the_users_kubeconfig_is_left_alone() -> None:
    for command in (kind.create_command, kind.kubeconfig_command):
        assert words(command(Path("/c/k")))[-2:] == ["--kubeconfig", "/c/k"]


def test_the_runtime_alone_is_built_with_torch_for_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "cpu_index_answers", lambda: True)
    runtime, operator = words(kind.build_command(RUNTIME)), words(kind.build_command(OPERATOR))
    assert runtime[2] == "--build-arg"
    assert runtime[3].startswith("PIP_EXTRA_INDEX_URL=https://")
    assert "--build-arg" not in operator
    assert operator[-3:] == ["-f", f"{CHECKOUT}/operator/Dockerfile", str(CHECKOUT)]
    assert "ARG PIP_EXTRA_INDEX_URL" in (CHECKOUT / "runtime" / "Dockerfile").read_text()


def test_an_index_that_does_not_answer_is_not_tried_for_each_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kind, "cpu_index_answers", lambda: False)
    assert "--build-arg" not in words(kind.build_command(RUNTIME))


def test_prometheus_is_built_in_its_own_folder_which_dockerignore_does_not_empty() -> None:
    *_, dockerfile, context = words(kind.build_command(PROMETHEUS))
    assert Path(dockerfile).exists()
    copied = [
        line.split()[1]
        for line in Path(dockerfile).read_text().splitlines()
        if line.startswith("COPY d")
    ]
    assert copied
    assert all((Path(context) / name).exists() for name in copied)


def test_an_image_is_loaded_by_the_name_it_was_built_under() -> None:
    image = kind.image_name(OPERATOR)
    assert image in words(kind.build_command(OPERATOR))
    assert words(kind.load_command(image)) == [
        "kind",
        "load",
        "docker-image",
        image,
        "--name",
        kind.NAME,
    ]
