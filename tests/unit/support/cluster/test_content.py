"""A change rebuilds exactly the tools and images that depend on it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cluster.images.recipes import (
    OPERATOR,
    RUNTIME,
    content_hash,
    project_file,
    requirements,
)
from tests.support.cluster.packages.tools import HELM, NODE
from tests.support.cluster.places import CHECKOUT, Places

PROJECT = """
[project]
dependencies = ["a==1"]
[project.optional-dependencies]
operator = ["b==2"]
runtime = ["c==3"]
tune = ["a==1", "d==4"]
[tool.ruff]
line-length = 100
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in (
        "operator/penstock_api",
        "operator/penstock_operator",
        "runtime/penstock_runtime",
        "runtime/penstock_tuner",
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "code.py").write_text("pass\n")
    for room in ("operator", "runtime"):
        shutil.copy(CHECKOUT / room / "Dockerfile", tmp_path / room / "Dockerfile")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def hashes(checkout: Path, base: str = "base") -> tuple[str, str]:
    return content_hash(OPERATOR, base, checkout), content_hash(RUNTIME, base, checkout)


def test_an_edit_of_the_operator_rebuilds_the_operator_alone(checkout: Path) -> None:
    operator, runtime = hashes(checkout)
    (checkout / "operator/penstock_operator/code.py").write_text("edited = True\n")
    assert hashes(checkout)[0] != operator
    assert hashes(checkout)[1] == runtime


def test_an_edit_of_what_both_share_rebuilds_both(checkout: Path) -> None:
    operator, runtime = hashes(checkout)
    (checkout / "operator/penstock_api/more.py").write_text("")
    assert hashes(checkout)[0] != operator
    assert hashes(checkout)[1] != runtime


def test_a_new_name_for_the_same_content_is_another_image(checkout: Path) -> None:
    before = hashes(checkout)
    code = checkout / "operator/penstock_operator/code.py"
    code.rename(code.with_name("renamed.py"))
    assert hashes(checkout)[0] != before[0]


def test_compiled_files_times_and_the_linters_settings_rebuild_nothing(checkout: Path) -> None:
    before = hashes(checkout)
    (checkout / "operator/penstock_operator/__pycache__").mkdir()
    (checkout / "operator/penstock_operator/__pycache__/code.pyc").write_bytes(b"x")
    (checkout / "operator/penstock_operator/code.py").touch()
    (checkout / "pyproject.toml").write_text(PROJECT.replace("100", "90"))
    assert hashes(checkout) == before


def test_a_pin_of_one_extra_rebuilds_one_image(checkout: Path) -> None:
    operator, runtime = hashes(checkout)
    (checkout / "pyproject.toml").write_text(PROJECT.replace("c==3", "c==4"))
    assert hashes(checkout)[0] == operator
    assert hashes(checkout)[1] != runtime


def test_another_base_rebuilds_all(checkout: Path) -> None:
    assert not set(hashes(checkout, "base")) & set(hashes(checkout, "newer"))


def test_an_image_installs_the_projects_requirements_and_its_extras_alone(checkout: Path) -> None:
    assert requirements(OPERATOR, checkout) == ["a==1", "b==2"]
    assert requirements(RUNTIME, checkout) == ["a==1", "c==3", "d==4"]
    assert "c==3" not in project_file(OPERATOR, checkout)


@pytest.mark.parametrize("package", ["torch", "openvino"])
def test_the_runtimes_image_alone_has_what_computes(package: str) -> None:
    assert not [line for line in requirements(OPERATOR) if line.startswith(package)]
    assert [line for line in requirements(RUNTIME) if line.startswith(package)]


def test_a_tool_is_rebuilt_for_other_sources_flags_or_compilers(tmp_path: Path) -> None:
    source = tmp_path / "go.mod"
    source.write_text("module a\n")
    tool = replace(HELM, sources=(source,))
    first = tool.key("go1.26 linux amd64")
    assert tool.key("go1.27 linux amd64") != first
    assert replace(tool, argv=("go", "build")).key("go1.26 linux amd64") != first
    source.write_text("module b\n")
    assert tool.key("go1.26 linux amd64") != first


def test_the_nodes_key_covers_its_module_file() -> None:
    assert {path.name for path in NODE.sources} == {"go.mod", "go.sum", "main.go"}


def test_the_cache_is_the_machines_and_can_be_moved() -> None:
    assert Places.from_env({"PENSTOCK_CACHE": "/elsewhere"}).kubeconfig == Path(
        "/elsewhere/cluster/admin.kubeconfig"
    )
    assert Places.from_env({}).cache == Path.home() / ".cache" / "penstock"
