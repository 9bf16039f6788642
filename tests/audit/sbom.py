"""The software bill of materials of an image: the dependencies of its extra of `penstock`, with versions and licences.

cyclonedx-py describes a whole environment; this module keeps only the dependencies of one extra.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from packaging.requirements import Requirement

Bom = dict[str, Any]
Requires = Callable[[str], Iterable[str]]
"""Maps a distribution's name to its requirements, like `importlib.metadata.requires`."""


def plain(name: str) -> str:
    """Return a distribution's name in the normal form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(name: str, extras: frozenset[str], requires: Requires) -> frozenset[str]:
    """Return the plain names of all dependencies of a distribution with these extras, without itself."""
    names: set[str] = set()
    ahead = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        for text in requires(node[0]):
            requirement = Requirement(text)
            if _applies(requirement, node[1]):
                names.add(plain(requirement.name))
                ahead.append((requirement.name, frozenset(requirement.extras)))
    return frozenset(names - {plain(name)})


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def bill(whole: Bom, image: str, wanted: frozenset[str]) -> Bom:
    """Return the bill of one image: the wanted components of `whole` and their dependencies.

    Raises:
        ValueError: a wanted component is not in the described environment.
    """
    components = [
        component for component in whole["components"] if plain(component["name"]) in wanted
    ]
    missing = wanted - {plain(component["name"]) for component in components}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))} not installed here: run make setup")
    root = {**whole["metadata"]["component"], "name": image}
    references = {component["bom-ref"] for component in components}
    dependencies = [
        _among(dependency, references)
        for dependency in whole["dependencies"]
        if dependency["ref"] in references
    ]
    top = {"ref": root["bom-ref"], "dependsOn": sorted(references)}
    return {
        **whole,
        "metadata": {**whole["metadata"], "component": root},
        "components": components,
        "dependencies": [top, *dependencies],
    }


def _among(dependency: Mapping[str, Any], references: set[str]) -> dict[str, Any]:
    dependencies = [
        reference for reference in dependency.get("dependsOn", ()) if reference in references
    ]
    return {**dependency, "dependsOn": dependencies} if dependencies else {"ref": dependency["ref"]}


def requirements(document: Bom) -> str:
    """Return a bill's components as pinned requirements, for pip-audit."""
    return "".join(
        f"{component['name']}=={component['version']}\n" for component in document["components"]
    )
