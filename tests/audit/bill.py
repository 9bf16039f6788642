"""The software bill of materials of one image: what its extra of `penstock` brings, with versions and licences.

An environment is described by cyclonedx-py as a whole; from that, what one extra stands on is kept.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from packaging.requirements import Requirement

Bom = dict[str, Any]
Requires = Callable[[str], Iterable[str]]
"""From a distribution's name to its requirements, as `importlib.metadata.requires` gives them."""


def plain(name: str) -> str:
    """Return a distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(name: str, extras: frozenset[str], requires: Requires) -> frozenset[str]:
    """Return the plain names of everything that a distribution with these extras stands on, itself left out."""
    found: set[str] = set()
    ahead = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        for text in requires(one[0]):
            requirement = Requirement(text)
            if _applies(requirement, one[1]):
                found.add(plain(requirement.name))
                ahead.append((requirement.name, frozenset(requirement.extras)))
    return frozenset(found - {plain(name)})


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": one}) for one in extras or {""})


def bill(whole: Bom, image: str, wanted: frozenset[str]) -> Bom:
    """Return the bill of one image: of `whole`, the components that are wanted and their dependencies.

    Raises:
        ValueError: something wanted is not in the environment that was described.
    """
    kept = [one for one in whole["components"] if plain(one["name"]) in wanted]
    missing = wanted - {plain(one["name"]) for one in kept}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))} not installed here: run make setup")
    root = {**whole["metadata"]["component"], "name": image}
    references = {one["bom-ref"] for one in kept}
    dependencies = [
        _among(one, references) for one in whole["dependencies"] if one["ref"] in references
    ]
    top = {"ref": root["bom-ref"], "dependsOn": sorted(references)}
    return {
        **whole,
        "metadata": {**whole["metadata"], "component": root},
        "components": kept,
        "dependencies": [top, *dependencies],
    }


def _among(dependency: Mapping[str, Any], references: set[str]) -> dict[str, Any]:
    kept = [one for one in dependency.get("dependsOn", ()) if one in references]
    return {**dependency, "dependsOn": kept} if kept else {"ref": dependency["ref"]}


def requirements(made: Bom) -> str:
    """Return a bill's components as pinned requirements, for pip-audit."""
    return "".join(f"{one['name']}=={one['version']}\n" for one in made["components"])
