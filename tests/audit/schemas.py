"""JSON schemas for kubeconform -strict, from the OpenAPI document of the API server itself and from CRDs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
LOCAL = "#/definitions/"
KINDS = "x-kubernetes-group-version-kind"


def write_schemas(openapi: Mapping[str, Any], crds: Iterable[Path], folder: Path) -> int:
    """Write a schema for every kind, named as kubeconform's default template has it; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    schemas = [*of_openapi(openapi), *of_crds(crds)]
    for kind, schema in schemas:
        group = [kind["group"].split(".")[0]] if kind["group"] else []
        name = "-".join([kind["kind"], *group, kind["version"]]).lower()
        (folder / f"{name}.json").write_text(json.dumps(schema))
    return len(schemas)


def of_openapi(openapi: Mapping[str, Any]) -> Iterator[tuple[Json, Json]]:
    """Yield (kind, schema) of every kind; each schema stands by itself, with all that it refers to."""
    definitions = {name: _strict(one) for name, one in openapi["definitions"].items()}
    for name, one in definitions.items():
        for kind in one.get(KINDS, ()):
            used = {each: definitions[each] for each in _reach(name, definitions)}
            yield kind, {"$ref": LOCAL + name, "definitions": used}


def of_crds(crds: Iterable[Path]) -> Iterator[tuple[Json, Json]]:
    """Yield (kind, schema) of the kinds that CRDs define, a file each."""
    for path in sorted(crds):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            named = {"group": spec["group"], "kind": spec["names"]["kind"]}
            schema = _strict(version["schema"]["openAPIV3Schema"])
            for own in ("apiVersion", "kind", "metadata"):
                schema["properties"].setdefault(own, {})
            yield {**named, "version": version["name"]}, schema


def _reach(name: str, definitions: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead.extend(_references(definitions[one]))
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):  # JSON schemas have a property called so
                yield value.removeprefix(LOCAL)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for one in node:
            yield from _references(one)


def _strict(node: Any) -> Any:
    """Return a schema that allows no property it does not name, and reads Kubernetes' own forms."""
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") is True or node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    strict = {key: _strict(one) for key, one in node.items() if key != "x-kubernetes-validations"}
    if "properties" in node:  # names are not words of the schema, even where they look so
        strict["properties"] = {name: _strict(one) for name, one in node["properties"].items()}
        strict.setdefault("additionalProperties", False)
    return strict
