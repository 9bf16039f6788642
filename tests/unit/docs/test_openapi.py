"""The OpenAPI file describes exactly the routes that the server has, and its references resolve."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stalls.walk import ENCODER, GENERATION, ONE_SHOT, Kind
from tests.support.pages import openapi
from tests.support.pages.__main__ import OPENAPI

DOCUMENT: dict[str, Any] = json.loads(OPENAPI.read_text(encoding="utf-8"))
METHODS = {"get", "post", "put", "patch", "delete"}


def described(*tags: str) -> set[str]:
    """Return the described operations with one of the tags."""
    return {
        f"{method.upper()} {path}"
        for path, item in DOCUMENT["paths"].items()
        for method in METHODS & item.keys()
        if set(item[method]["tags"]) & set(tags)
    }


def references(node: Any) -> Iterator[str]:
    """Yield every reference of the document."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


@pytest.mark.parametrize(
    ("kind", "tags"),
    [
        (ONE_SHOT, (openapi.ALL,)),
        (ENCODER, (openapi.ALL, openapi.EMBEDDING)),
        (GENERATION, (openapi.ALL, openapi.GENERATION)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_file_describes_the_routes_of_a_kind_of_pod_and_no_others(
    kind: Kind, tags: tuple[str, ...]
) -> None:
    served = {route for route, of_cluster in kind.routes().items() if not of_cluster}
    assert described(*tags) == served | {"GET /metrics"}


def test_every_reference_resolves() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    named = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert named <= schemas.keys()
    assert {"ChatBody", "InferRequest", "Error"} <= named


def test_bodies_are_those_of_the_types_that_parse_them() -> None:
    chat = DOCUMENT["components"]["schemas"]["ChatBody"]
    assert "messages" in chat["required"]
    assert chat["properties"]["stream"]["type"] == "boolean"


def test_every_operation_has_a_summary_and_an_answer() -> None:
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS & item.keys():
            operation = item[method]
            assert operation["summary"], path
            assert operation["responses"], path
