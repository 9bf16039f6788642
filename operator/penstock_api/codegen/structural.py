"""`structural`: converts pydantic's JSON schema to the structural schema of a CustomResourceDefinition.

Structural (apiextensions/v1): no `$ref`, no `anyOf` with null, no `title`; here also no defaults, since a schema
default would mask every policy default. An unknown keyword is an error.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)
_DROPPED = ("title", "default")
_INT32_MAX = 2**31 - 1


class NotStructural(ValueError):
    """A type uses a keyword that a structural schema cannot express; the message names the place and the keyword."""


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of `model`, without defaults.

    Raises:
        NotStructural: a keyword is not supported in a structural schema.
    """
    whole = model.model_json_schema(by_alias=True)
    return _node(whole, whole.get("$defs", {}), model.__name__)


def _node(node: Mapping[str, Any], types: Mapping[str, Any], where: str) -> Schema:
    flat = _flattened(node, types)
    if flat.get("x-kubernetes-int-or-string"):
        flat |= {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    result: Schema = {key: flat[key] for key in _KEPT if key in flat}
    if "description" in result:
        result["description"] = re.sub(r"\s*\n\s*", " ", result["description"])
    result |= _numbers(flat, where)
    result |= _children(flat, types, where)
    result |= {key: value for key, value in flat.items() if key.startswith("x-kubernetes-")}
    known = {*result, *_DROPPED, "$defs", "exclusiveMaximum", "exclusiveMinimum"}
    if unknown := flat.keys() - known:
        raise NotStructural(f"{where}: {', '.join(sorted(unknown))} is not supported in a CRD")
    return result


def _flattened(node: Mapping[str, Any], types: Mapping[str, Any]) -> Schema:
    """Return `node` with its reference and its optional branch inlined; its own keywords win."""
    flat = dict(node)
    while True:
        branches = [branch for branch in flat.get("anyOf", ()) if branch != {"type": "null"}]
        if "$ref" in flat:
            inner = types[flat.pop("$ref").removeprefix("#/$defs/")]
        elif len(branches) == 1:
            del flat["anyOf"]
            inner = branches[0]
        else:
            return flat
        flat = {**inner, **flat}


def _numbers(flat: Mapping[str, Any], where: str) -> Schema:
    if flat.get("type") != "integer":
        if flat.get("type") == "number":
            raise NotStructural(
                f"{where}: floats are not allowed in this API; use an integer with a unit"
            )
        return {}
    bounds: Schema = {}
    if "exclusiveMaximum" in flat:
        bounds["maximum"] = flat["exclusiveMaximum"] - 1
    if "exclusiveMinimum" in flat:
        bounds["minimum"] = flat["exclusiveMinimum"] + 1
    largest = bounds.get("maximum", flat.get("maximum", 0))
    return {"format": "int32" if largest <= _INT32_MAX else "int64", **bounds}


def _children(flat: Mapping[str, Any], types: Mapping[str, Any], where: str) -> Schema:
    children: Schema = {}
    if "anyOf" in flat and flat.get("x-kubernetes-int-or-string"):
        children["anyOf"] = flat["anyOf"]
    if "items" in flat:
        children["items"] = _node(flat["items"], types, f"{where}[]")
    if "properties" in flat:
        children["properties"] = {
            name: _node(child, types, f"{where}.{name}")
            for name, child in flat["properties"].items()
        }
    if isinstance(flat.get("additionalProperties"), Mapping):
        children["additionalProperties"] = _node(flat["additionalProperties"], types, f"{where}.*")
    return children
