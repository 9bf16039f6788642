"""JSON schemas for kubeconform -strict, from the API server's OpenAPI document and from CRDs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
LOCAL = "#/definitions/"
KINDS = "x-kubernetes-group-version-kind"


def write_schemas(openapi: Mapping[str, Any], crds: Iterable[Path], folder: Path) -> int:
    """Write a schema for every kind, named after kubeconform's default template; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    schemas = [*of_openapi(openapi), *of_crds(crds)]
    for kind, schema in schemas:
        group = [kind["group"].split(".")[0]] if kind["group"] else []
        name = "-".join([kind["kind"], *group, kind["version"]]).lower()
        (folder / f"{name}.json").write_text(json.dumps(schema))
    return len(schemas)


def of_openapi(openapi: Mapping[str, Any]) -> Iterator[tuple[Json, Json]]:
    """Yield (kind, schema) of every kind; each schema includes all definitions that it references."""
    definitions = {name: _strict(schema) for name, schema in openapi["definitions"].items()}
    for name, schema in definitions.items():
        for kind in schema.get(KINDS, ()):
            used = {each: definitions[each] for each in _reach(name, definitions)}
            yield kind, {"$ref": LOCAL + name, "definitions": used}


def of_crds(crds: Iterable[Path]) -> Iterator[tuple[Json, Json]]:
    """Yield (kind, schema) of the kinds that CRD files define."""
    for path in sorted(crds):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            named = {"group": spec["group"], "kind": spec["names"]["kind"]}
            schema = _strict(version["schema"]["openAPIV3Schema"])
            # a CRD declares the members of metadata that its rules refer to, not all of them
            schema["properties"] |= {own: {} for own in ("apiVersion", "kind", "metadata")}
            yield {**named, "version": version["name"]}, schema


def _reach(name: str, definitions: Mapping[str, Json]) -> set[str]:
    reached: set[str] = set()
    ahead = [name]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead.extend(_references(definitions[name]))
    return reached


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(
                value, str
            ):  # JSON schemas can have a property of this name
                yield value.removeprefix(LOCAL)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _strict(node: Any) -> Any:
    """Return a schema that rejects unknown properties and supports Kubernetes' own formats."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") is True or node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    strict = {
        key: _strict(value) for key, value in node.items() if key != "x-kubernetes-validations"
    }
    if "properties" in node:  # property names are not keywords, even if they equal one
        strict["properties"] = {name: _strict(value) for name, value in node["properties"].items()}
        strict.setdefault("additionalProperties", False)
    return strict
