"""The compiler stage of the runtime's image has a few files and a bare interpreter, and makes the libraries from those."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_runtime.scan import library
from tests.cluster.places import CHECKOUT

LIBRARIES = {
    "penstock_runtime.scan.library": library.built_ahead(),
}


def stage() -> list[str]:
    """Return the instructions of the stage `native`, each on one line."""
    text = (CHECKOUT / "runtime/Dockerfile").read_text().replace("\\\n", " ")
    _, _, rest = text.partition(" AS native\n")
    return rest.partition("\nFROM ")[0].splitlines()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What the stage copies, where it copies it."""
    for line in stage():
        word, *operands = line.split()
        if word == "COPY":
            taken, target = CHECKOUT / operands[0], tmp_path / operands[1]
            if taken.is_dir():
                shutil.copytree(taken, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(taken, target)
    return tmp_path


@pytest.mark.parametrize("module", LIBRARIES)
def test_a_library_is_made_where_the_runtime_looks_for_it(source: Path, module: str) -> None:
    assert any(f"python3 -m {module}" in line for line in stage())
    bare = [sys.executable, "-S", "-m", module]
    environ = {"PATH": "/usr/bin:/bin"}
    ran = subprocess.run(bare, cwd=source, env=environ, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    where = LIBRARIES[module].relative_to(CHECKOUT / "runtime")
    assert [one.relative_to(source) for one in source.rglob("*.so")] == [where]


def test_the_commands_that_people_copy_build_the_variant_with_the_libraries() -> None:
    for page in ("README.md", "runtime/Dockerfile"):
        lines = (CHECKOUT / page).read_text().splitlines()
        (command,) = [one for one in lines if "docker build -f runtime/Dockerfile" in one]
        assert "--build-arg COMPILER=python:3.11 " in command, page
