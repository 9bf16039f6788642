"""Finds what a manifest in the docs says that the schema of its kind does not know."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from penstock_api.codegen.crdgen import POLICY, POOL, definition

Schema = Mapping[str, Any]


@cache
def schemas() -> dict[str, Schema]:
    """Return the root schema of each kind."""
    return {
        kind.name: definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for kind in (POOL, POLICY)
    }


def faults(manifest: Mapping[str, Any]) -> list[str]:
    """Return one line for each unknown field, missing field or value outside its enumeration of an object or a `spec` alone."""
    kind = manifest.get("kind")
    if kind in schemas():
        schema = schemas()[kind]
        rest = {key: value for key, value in manifest.items() if key != "metadata"}
        return list(_faults(rest, schema, "", complete=True))
    if set(manifest) == {"spec"}:
        either = [
            list(_faults(manifest["spec"], schema["properties"]["spec"], "spec", complete=False))
            for schema in schemas().values()
        ]
        return min(either, key=len)
    return []


def _faults(value: Any, schema: Schema, path: str, *, complete: bool) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "array":
        for item in value:
            yield from _faults(item, schema["items"], f"{path}[]", complete=True)
    properties = schema.get("properties")
    if schema.get("type") != "object" or not properties:
        return
    for name in schema.get("required", ()) if complete else ():
        if name not in value:
            yield f"{path}.{name} is missing".removeprefix(".")
    for name, child in value.items():
        inner = f"{path}.{name}".removeprefix(".")
        if name in properties:
            yield from _faults(child, properties[name], inner, complete=complete)
        else:
            yield f"{inner} is unknown"
