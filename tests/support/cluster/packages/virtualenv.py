"""The developers' virtual environment, `.venv`: made once for the content of pyproject.toml and a Python."""

import hashlib
import importlib.util
import shutil
import sys

from tests.support.cluster.commands import Word, build, output
from tests.support.cluster.images.wheels import SHARED_WHEELS
from tests.support.cluster.packages import debian
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.progress import say

FOLDER = CHECKOUT / ".venv"
MARKER = FOLDER / ".penstock"
DEMO_EXTRAS = "operator,kubectl"
MIN_PYTHON, MAX_PYTHON = (3, 11), (3, 14)
"""Range of supported versions; the newest has a wheel of every pinned dependency. Images have their own Python."""


class WrongPythonError(Exception):
    """The project does not run on this version of Python."""


def make_environment(places: Places) -> None:
    """Install the project and all its tools, editable, unless that was done for this very pyproject.toml.

    Raises:
        WrongPythonError, CommandFailedError.
    """
    _make(places, "dev", _key("dev"))


def make_demo_environment(places: Places) -> None:
    """Install what the demo runs with: no torch, which only its images have. An environment with all tools will do.

    Raises:
        WrongPythonError, CommandFailedError.
    """
    if not has_demo():
        _make(places, DEMO_EXTRAS, _key(DEMO_EXTRAS))


def has_demo() -> bool:
    """Return whether the demo can run in the virtual environment."""
    return MARKER.exists() and MARKER.read_text() in (_key("dev"), _key(DEMO_EXTRAS))


def _make(places: Places, extras: str, wanted: str) -> None:
    if MARKER.exists() and MARKER.read_text() == wanted:
        say("the virtual environment is up to date")
        return
    check_python(sys.version_info[:2])
    log = places.cache / "setup.log"
    if not _usable():
        shutil.rmtree(FOLDER, ignore_errors=True)
        if importlib.util.find_spec("ensurepip") is None:
            debian.install(places, ("python3-venv",))
        build("python: the virtual environment", [sys.executable, "-m", "venv", FOLDER], log)
    links: list[Word] = ["--find-links", SHARED_WHEELS] if SHARED_WHEELS.is_dir() else []
    argv: list[Word] = [
        FOLDER / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--progress-bar=off",
        "--disable-pip-version-check",
        "--no-cache-dir",  # what is installed once need not be kept twice
        "--no-compile",  # what is never imported need not be compiled
    ]
    build(
        f"pip: the project with {extras}",
        [*argv, *links, "--editable", f"{CHECKOUT}[{extras}]"],
        log,
        cwd=CHECKOUT,
    )
    MARKER.write_text(wanted)


def _usable() -> bool:
    python = FOLDER / "bin" / "python"
    if not python.exists():
        return False
    same = f"import pip, sys; print(sys.version_info[:2] == {sys.version_info[:2]})"
    return output([python, "-c", same]).strip() == "True"


def check_python(version: tuple[int, int]) -> None:
    """Raise WrongPythonError unless the project runs on `version`."""
    if not MIN_PYTHON <= version <= MAX_PYTHON:
        low, high, this = (
            ".".join(map(str, version_parts)) for version_parts in (MIN_PYTHON, MAX_PYTHON, version)
        )
        raise WrongPythonError(
            f"Python {this} cannot be used, {low} to {high} can: run `make PYTHON=/path/to/python{low}`"
        )


def _key(extras: str) -> str:
    content = (CHECKOUT / "pyproject.toml").read_bytes() + sys.version.encode()
    key = hashlib.sha256(content).hexdigest()
    return key if extras == "dev" else f"{key} {extras}"
