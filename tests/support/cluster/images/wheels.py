"""Wheelhouses: the packages of an image, downloaded on the machine and copied into the build context."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.support.cluster.commands import Word, build
from tests.support.cluster.images.recipes import Recipe, requirements
from tests.support.cluster.places import CHECKOUT, Places

SHARED_WHEELS = CHECKOUT.parent / "shared" / "wheels"
"""Optional local wheels next to the checkout, such as the small CPU build of torch."""
PYTHON = "3.11"


def wheelhouse(places: Places, recipe: Recipe) -> Path:
    """Return a folder of all wheels of an image; they are downloaded again only when the requirements change."""
    wanted = requirements(recipe)
    shared = sorted(path.name for path in SHARED_WHEELS.glob("*.whl"))
    key = hashlib.sha256(repr((PYTHON, wanted, shared)).encode()).hexdigest()[:12]
    folder = places.images / "wheels" / f"{recipe.name}-{key}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    links: list[Word] = ["--find-links", SHARED_WHEELS] if shared else []
    only: list[Word] = ["--only-binary=:all:", "--python-version", PYTHON, "--dest", unfinished]
    build(
        f"pip: wheels of the {recipe.name}",
        [
            _pip(places),
            "download",
            "--progress-bar=off",
            "--disable-pip-version-check",
            *only,
            *links,
            *wanted,
        ],
        places.images / f"wheels-{recipe.name}.log",
    )
    for older in folder.parent.glob(f"{recipe.name}-*"):
        if older != unfinished:
            shutil.rmtree(older, ignore_errors=True)
    unfinished.rename(folder)
    return folder


def _pip(places: Places) -> Path:
    """Return a pip of our own: Debian's Python has none outside a virtual environment."""
    environment = places.images / "pip"
    if not (environment / "bin" / "pip").exists():
        build(
            "python: an environment for pip",
            [sys.executable, "-m", "venv", environment],
            places.images / "pip.log",
        )
    return environment / "bin" / "pip"
