"""JSON schemas for kubeconform -strict, from the OpenAPI document of the API server itself and from our CRDs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
DEFINITIONS = "_definitions.json"
KINDS = "x-kubernetes-group-version-kind"


def write_schemas(openapi: Mapping[str, Any], crds: Path, folder: Path) -> int:
    """Write a schema for every kind, named as kubeconform's default template has it; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    definitions = {name: _strict(one) for name, one in openapi["definitions"].items()}
    (folder / DEFINITIONS).write_text(json.dumps({"definitions": definitions}))
    made = 0
    for name, one in definitions.items():
        for kind in one.get(KINDS, ()):
            _write(folder, kind, {"$ref": f"{DEFINITIONS}#/definitions/{name}"})
            made += 1
    for kind, schema in _of_crds(crds):
        _write(folder, kind, schema)
        made += 1
    return made


def _of_crds(crds: Path) -> Iterator[tuple[Json, Json]]:
    for path in sorted(crds.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            kind = {
                "group": spec["group"],
                "version": version["name"],
                "kind": spec["names"]["kind"],
            }
            schema = _strict(version["schema"]["openAPIV3Schema"])
            for own in ("apiVersion", "kind", "metadata"):
                schema["properties"].setdefault(own, {})
            yield kind, schema


def _write(folder: Path, kind: Mapping[str, str], schema: Json) -> None:
    words = [
        kind["kind"],
        *([kind["group"].split(".")[0]] if kind["group"] else []),
        kind["version"],
    ]
    (folder / ("-".join(words).lower() + ".json")).write_text(json.dumps(schema))


def _strict(node: Any) -> Any:
    """Return a schema that allows no property it does not name, and reads Kubernetes' own forms."""
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") or node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    strict = {
        key: f"{DEFINITIONS}{value}" if key == "$ref" else _strict(value)
        for key, value in node.items()
        if key != "x-kubernetes-validations"
    }
    if "properties" in node and "additionalProperties" not in node:
        strict["additionalProperties"] = False
    return strict
