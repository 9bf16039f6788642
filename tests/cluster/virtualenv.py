"""The developers' virtual environment, `.venv`: made once for the content of pyproject.toml."""

import hashlib
import importlib.util
import shutil
import sys

from tests.cluster import debian
from tests.cluster.commands import Word, build, output
from tests.cluster.images.wheels import PYTHON, SHARED_WHEELS
from tests.cluster.places import CHECKOUT, Places
from tests.cluster.progress import say

FOLDER = CHECKOUT / ".venv"
MARKER = FOLDER / ".penstock"


class WrongPythonError(Exception):
    """The project is written for one minor version of Python."""


def make_environment(places: Places) -> None:
    """Install the project and its tools, editable, unless that was done for this very pyproject.toml.

    Raises:
        WrongPythonError, CommandFailedError.
    """
    wanted = _key()
    if MARKER.exists() and MARKER.read_text() == wanted:
        say("the virtual environment is up to date")
        return
    if sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        raise WrongPythonError(
            f"Python {PYTHON} is needed, this is {sys.version.split()[0]}: make PYTHON=/path/to/python{PYTHON}"
        )
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
    return (
        output([python, "-c", "import pip, sys; print(sys.version_info[:2] == (3, 11))"]).strip()
        == "True"
    )


def _key() -> str:
    content = (CHECKOUT / "pyproject.toml").read_bytes() + sys.version.encode()
    return hashlib.sha256(content).hexdigest()
