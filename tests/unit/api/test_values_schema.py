"""Completing the schema of the chart's values."""

import json
from typing import Any

import pytest

from penstock_api.codegen.crdgen import POLICY, definition
from penstock_api.codegen.values_schema import fill_values_schema

POLICY_SCHEMA = definition(POLICY)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def filled(**properties: Any) -> Any:
    schema = {"type": "object", "properties": properties}
    return json.loads(fill_values_schema(json.dumps(schema), POLICY_SCHEMA))


def test_an_object_lists_the_names_that_it_accepts() -> None:
    image = filled(image={"type": "object", "properties": {"tag": {"type": "string"}}})
    inner = image["properties"]["image"]
    assert inner["propertyNames"] == {"enum": ["tag"]}
    assert inner["additionalProperties"] is False
    assert image["propertyNames"] == {"enum": ["image", "poolDefaults"]}


@pytest.mark.parametrize("others", [{}, {"additionalProperties": {"type": "string"}}])
def test_a_map_stays_open(others: dict[str, Any]) -> None:
    labels = {"type": "object", **others}
    assert filled(labels=labels)["properties"]["labels"] == labels


def test_a_value_may_be_named_like_a_keyword() -> None:
    peer = {"type": "object", "properties": {"properties": {"type": "string"}}}
    assert filled(peer=peer)["properties"]["peer"]["propertyNames"] == {"enum": ["properties"]}


def test_the_defaults_of_pools_are_those_of_a_policy_without_keywords_of_kubernetes() -> None:
    defaults = filled()["properties"]["poolDefaults"]
    assert set(defaults["properties"]) == {"objectives", "scaling", "batching"}
    assert "x-kubernetes" not in json.dumps(defaults)
    assert defaults["properties"]["scaling"]["additionalProperties"] is False


def test_completing_twice_changes_nothing() -> None:
    once = json.dumps(filled(image={"type": "object", "properties": {"tag": {}}}))
    assert json.loads(fill_values_schema(once, POLICY_SCHEMA)) == json.loads(once)
