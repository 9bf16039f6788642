"""The developers' virtual environment, `.venv`: made once for the content of pyproject.toml and a Python."""

import hashlib
import importlib.util
import shutil
import sys

from tests.support.cluster import debian
from tests.support.cluster.commands import Word, build, output
from tests.support.cluster.images.wheels import SHARED_WHEELS
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.progress import say

FOLDER = CHECKOUT / ".venv"
MARKER = FOLDER / ".penstock"
MIN_PYTHON, MAX_PYTHON = (3, 11), (3, 14)
"""Range of supported versions; the newest has a wheel of every pinned dependency. Images have their own Python."""


class WrongPythonError(Exception):
    """The project does not run on this version of Python."""


def make_environment(places: Places) -> None:
    """Install the project and its tools, editable, unless that was done for this very pyproject.toml.

    Raises:
        WrongPythonError, CommandFailedError.
    """
    wanted = _key()
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
        "--no-compile",  # what is never imported need not be compiled
    ]
    build(
        "pip: the project and its tools",
        [*argv, *links, "--editable", f"{CHECKOUT}[dev]"],
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


def _key() -> str:
    content = (CHECKOUT / "pyproject.toml").read_bytes() + sys.version.encode()
    return hashlib.sha256(content).hexdigest()
