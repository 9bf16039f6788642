"""Schemas for kubeconform: strict, each by itself, our own kinds among them."""

from typing import Any

from tests.audit.schemas import KINDS, of_crds, of_openapi
from tests.unit.api.crds import ROOT

OPENAPI: dict[str, Any] = {
    "definitions": {
        "v1.Thing": {
            KINDS: [{"group": "apps", "kind": "Thing", "version": "v1"}],
            "properties": {
                "spec": {"$ref": "#/definitions/v1.Spec"},
                "port": {"type": "string", "format": "int-or-string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
        "v1.Spec": {
            "properties": {"$ref": {"type": "string"}, "self": {"$ref": "#/definitions/v1.Spec"}}
        },
        "v1.Other": {"properties": {}},
    }
}


def test_the_schema_of_a_kind_has_only_the_referenced_definitions() -> None:
    ((kind, schema),) = of_openapi(OPENAPI)
    assert kind["kind"] == "Thing"
    assert schema["$ref"] == "#/definitions/v1.Thing"
    assert set(schema["definitions"]) == {"v1.Thing", "v1.Spec"}


def test_unknown_properties_are_rejected_except_in_maps() -> None:
    ((_, schema),) = of_openapi(OPENAPI)
    thing = schema["definitions"]["v1.Thing"]
    assert thing["additionalProperties"] is False
    assert thing["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert thing["properties"]["port"] == {"type": ["string", "integer"]}


def test_property_names_that_equal_keywords_are_kept() -> None:
    named = {"x-kubernetes-int-or-string": {"type": "boolean"}, "format": {"type": "string"}}
    schema = {"definitions": {"v1.Thing": {KINDS: [{"kind": "Thing"}], "properties": named}}}
    ((_, schema),) = of_openapi(schema)
    assert schema["definitions"]["v1.Thing"]["properties"] == named


def test_our_own_kinds_are_strict_too() -> None:
    schemas = {kind["kind"]: schema for kind, schema in of_crds((ROOT / "crds").glob("*.yaml"))}
    assert set(schemas) == {"InferencePool", "InferencePolicy"}
    spec = schemas["InferencePool"]["properties"]["spec"]
    assert spec["additionalProperties"] is False
    assert spec["properties"]["tls"]["additionalProperties"] is False


def test_the_metadata_of_our_own_kinds_may_have_labels() -> None:
    for _, schema in of_crds((ROOT / "crds").glob("*.yaml")):
        assert schema["properties"]["metadata"] == {}
