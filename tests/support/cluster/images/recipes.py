"""The images: what each is made from, and the hash that names it."""

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster.places import CHECKOUT


@dataclass(frozen=True)
class Recipe:
    """An image made from a Dockerfile, folders of source, and extras of pyproject.toml with their wheels."""

    name: str
    dockerfile: str
    sources: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def repository(self) -> str:
        """The image's name without a tag."""
        return f"localhost/penstock-{self.name}"


OPERATOR = Recipe(
    "operator",
    "operator/Dockerfile",
    ("operator/penstock_api", "operator/penstock_operator"),
    ("operator",),
)
RUNTIME = Recipe(
    "runtime",
    "runtime/Dockerfile",
    ("operator/penstock_api", "runtime/penstock_runtime", "runtime/penstock_tuner"),
    ("runtime", "tune"),
)
PROMETHEUS = Recipe(
    "prometheus",
    "tests/support/cluster/prometheus/Dockerfile",
    ("tests/support/cluster/prometheus/discovery.py",),
)
GATEWAY = Recipe(
    "gateway",
    "operator/gateway.Dockerfile",
    ("operator/penstock_api", "operator/penstock_gateway"),
    ("gateway",),
)
BATCHES = Recipe(
    "batches",
    "operator/batches.Dockerfile",
    ("operator/penstock_api", "operator/penstock_batches"),
    ("batches",),
)
ENVOY = Recipe(
    "envoy",
    "tests/support/cluster/envoy/Dockerfile",
    ("tests/support/cluster/envoy/binary.py",),  # its pinned version and hash
)
RECIPES = (OPERATOR, RUNTIME, PROMETHEUS, GATEWAY, BATCHES, ENVOY)


def source_files(recipe: Recipe, checkout: Path = CHECKOUT) -> list[Path]:
    """Return the files that go into an image, relative to the checkout, in order."""
    paths: set[Path] = {Path(recipe.dockerfile)}
    for source in recipe.sources:
        path = checkout / source
        files: Iterable[Path] = path.rglob("*") if path.is_dir() else (path,)
        paths.update(
            file.relative_to(checkout)
            for file in files
            if file.is_file() and "__pycache__" not in file.parts
        )
    return sorted(paths)


def content_hash(recipe: Recipe, base: str, checkout: Path = CHECKOUT) -> str:
    """Return the hash of an image's files and base: equal hashes, equal images."""
    digest = hashlib.sha256(f"{base}\0{project_file(recipe, checkout)}".encode())
    for file in source_files(recipe, checkout):
        content = (checkout / file).read_bytes()
        digest.update(f"\0{file}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def requirements(recipe: Recipe, checkout: Path = CHECKOUT) -> list[str]:
    """Return the requirements that the image installs: the project's own and those of its extras."""
    own, extras = _requirements(recipe, checkout)
    wanted = [*own, *(requirement for extra in extras.values() for requirement in extra)]
    return list(dict.fromkeys(wanted))


def project_file(recipe: Recipe, checkout: Path = CHECKOUT) -> str:
    """Return pyproject.toml cut down to what the Dockerfile reads: an edit of the linter's settings rebuilds nothing."""
    own, extras = _requirements(recipe, checkout)
    lines = ["[project]", f"dependencies = {json.dumps(own)}", "[project.optional-dependencies]"]
    lines += [f"{name} = {json.dumps(extra)}" for name, extra in extras.items()]
    return "\n".join([*lines, ""])


def _requirements(recipe: Recipe, checkout: Path) -> tuple[list[str], dict[str, list[str]]]:
    if not recipe.extras:
        return [], {}
    project: dict[str, Any] = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return project["dependencies"], {name: optional[name] for name in recipe.extras}
