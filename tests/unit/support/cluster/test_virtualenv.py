"""Which versions of Python may run the project, and the error that another one gets."""

import tomllib

import pytest

from tests.support.cluster.packages.virtualenv import MIN_PYTHON, WrongPythonError, check_python
from tests.support.cluster.places import CHECKOUT


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_declared_versions_are_accepted(minor: int) -> None:
    check_python((3, minor))


@pytest.mark.parametrize("version", [(3, 10), (3, 15), (2, 7), (4, 0)])
def test_another_version_is_rejected_with_the_remedy(version: tuple[int, int]) -> None:
    said = (
        rf"Python {version[0]}\.{version[1]} cannot be used, 3\.11 to 3\.14 can: run `make PYTHON="
    )
    with pytest.raises(WrongPythonError, match=said):
        check_python(version)


def test_the_project_declares_the_same_oldest_version() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert declared["requires-python"] == ">=" + ".".join(map(str, MIN_PYTHON))
