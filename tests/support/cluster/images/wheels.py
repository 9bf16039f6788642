"""Wheelhouses: the packages of an image, downloaded on the machine and copied into the build context."""

import functools
import hashlib
import os
import shutil
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.support.cluster.commands import Word, build
from tests.support.cluster.images.recipes import Recipe, requirements
from tests.support.cluster.places import CHECKOUT, Places

SHARED_WHEELS = CHECKOUT.parent / "shared" / "wheels"
"""Optional local wheels next to the checkout, such as the small CPU build of torch."""
CPU_INDEX = os.environ.get("PENSTOCK_TORCH_INDEX") or "https://download.pytorch.org/whl/cpu"
PROBE_SECONDS = 5.0
PYTHON = "3.11"


def wheelhouse(places: Places, recipe: Recipe) -> Path:
    """Return a folder of all wheels of an image; they are downloaded again only when the requirements change."""
    wanted = requirements(recipe)
    folder = places.images / "wheels" / f"{recipe.name}-{wheels_key(recipe)}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    torch = [requirement for requirement in wanted if requirement.startswith("torch")]
    if torch and (source := cpu_torch()):
        _download(places, recipe, "torch for CPUs", [*source, "--no-deps", *torch], unfinished)
    links: list[Word] = ["--find-links", unfinished] if unfinished.exists() else []
    _download(places, recipe, f"wheels of the {recipe.name}", [*links, *wanted], unfinished)
    for older in folder.parent.glob(f"{recipe.name}-*"):
        if older != unfinished:
            shutil.rmtree(older, ignore_errors=True)
    unfinished.rename(folder)
    return folder


def forget_wheels(places: Places, recipe: Recipe) -> None:
    """Remove an image's wheels: the builder has what they contain."""
    for folder in (places.images / "wheels").glob(f"{recipe.name}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def wheels_key(recipe: Recipe) -> str:
    """Return the hash of what decides which wheels an image gets."""
    content = repr((PYTHON, requirements(recipe), cpu_torch()))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


@functools.cache
def cpu_torch() -> tuple[Word, ...]:
    """Return pip's options for torch built for CPUs alone, which is an eighth of the size; empty where none is reachable.

    It is a wheel next to the checkout, or PyTorch's own index of such wheels. The package index has torch for CUDA.
    """
    if any(SHARED_WHEELS.glob("torch-*+cpu-*.whl")):
        return ("--no-index", "--find-links", SHARED_WHEELS)
    return ("--index-url", CPU_INDEX) if cpu_index_answers() else ()


def cpu_index_answers() -> bool:
    """Return whether PyTorch's index of builds for CPUs can be reached; pip would try it 5 times for each package."""
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=PROBE_SECONDS):  # noqa: S310
            return True
    except (OSError, ValueError):
        return False


def _download(
    places: Places, recipe: Recipe, title: str, words: Sequence[Word], folder: Path
) -> None:
    only: list[Word] = ["--only-binary=:all:", "--python-version", PYTHON, "--dest", folder]
    quiet = ["--progress-bar=off", "--disable-pip-version-check", "--no-cache-dir"]
    build(
        f"pip: {title}",
        [_pip(places), "download", *quiet, *only, *words],
        places.images / f"wheels-{recipe.name}.log",
    )


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
