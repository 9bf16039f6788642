"""`fill_tables`: generates the tables of `docs/reference/api.md` from the schemas, with one row per field.

A table is between `<!-- fields: KIND PART -->` and `<!-- end -->`; the rest of the page is written by hand.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_MARKED = re.compile(r"(<!-- fields: (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| Field | Value | Meaning |\n| --- | --- | --- |\n"


def fill_tables(page: str, schemas: Mapping[str, Schema]) -> str:
    """Return `page` with regenerated tables; `schemas` are root schemas by kind."""

    def table(match: re.Match[str]) -> str:
        begin, kind, part, end = match.groups()
        rows = _rows(schemas[kind]["properties"][part], part)
        return begin + _HEAD + "".join(rows) + end

    return _MARKED.sub(table, page)


def _rows(schema: Schema, path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        inner = f"{path}.{name}"
        if "properties" in child:
            yield from _rows(child, inner)
            continue
        value = _value(child) + (", required" if name in required else "")
        yield f"| `{inner}` | {value} | {_cell(child['description'])} |\n"
        if "properties" in child.get("items", {}):
            yield from _rows(child["items"], f"{inner}[]")


def _value(node: Schema) -> str:
    if "enum" in node:
        return " \\| ".join(f"`{value}`" for value in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "percentage" if "maximum" in node else "quantity"
    if node["type"] == "array":
        keys = ", ".join(node.get("x-kubernetes-list-map-keys", ()))
        return f"list, at most {node['maxItems']}" + (f", by {keys}" if keys else "")
    if node["type"] == "object":
        return f"map, at most {node['maxProperties']}"
    if node["type"] == "integer":
        return _number(node)
    return "true or false" if node["type"] == "boolean" else _text(node)


def _number(node: Schema) -> str:
    low, high = node["minimum"], node["maximum"]
    return f"{low} or more" if high >= 2**31 - 1 else f"{low} to {high}"


def _text(node: Schema) -> str:
    return "time" if node.get("format") else f"text, at most {node['maxLength']}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
