"""The generated CRDs as the tests walk them: every schema node with its path."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "crds").glob("*.yaml"))

Schema = dict[str, Any]


@cache
def load(path: Path) -> Schema:
    """Return the CRD in `path`; shared, so look only."""
    crd: Schema = yaml.safe_load(path.read_text(encoding="utf-8"))
    return crd


def root(crd: Schema) -> Schema:
    """Return the OpenAPI schema of the CRD's only version."""
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every node with its path (`spec.objectives[].metric`), the root first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def own_nodes() -> list[tuple[str, str, Schema]]:
    """Return (kind, path, node) below spec and status, which this project's types define."""
    fields = []
    for file in FILES:
        crd = load(file)
        for path, node in nodes(root(crd)):
            if path.split(".")[0] in ("spec", "status"):
                fields.append((crd["spec"]["names"]["kind"], path, node))
    return fields


def of_type(kind: str) -> list[tuple[str, Schema]]:
    """Return (path, node) of every own node of one JSON type."""
    return [
        (f"{name} {path}", node) for name, path, node in own_nodes() if node.get("type") == kind
    ]
