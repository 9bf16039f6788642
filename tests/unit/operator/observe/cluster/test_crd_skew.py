"""CRDs of another version than the operator's: the skew is detected, reported, and left out of writes."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_api import names
from penstock_operator.act.status import drop_field
from penstock_operator.observe.cluster import convert
from penstock_operator.observe.cluster.crd_skew import field_paths, known_paths, skew_of
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew

ROOT = Path(__file__).parents[5]
EARLIER = ROOT / "tests" / "integration" / "api" / "earlier"
VERSIONS = sorted(folder.name for folder in EARLIER.iterdir() if folder.is_dir())


def schema(file: Path) -> dict[str, Any]:
    definition = yaml.safe_load(file.read_text())
    served: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return served


def document(served: Mapping[str, Any], kind: str = names.POOL_KIND) -> dict[str, Any]:
    """Return the API server's OpenAPI of one kind."""
    named = [{"group": names.GROUP, "version": names.VERSION, "kind": kind}]
    published = {**served, "x-kubernetes-group-version-kind": named}
    return {"components": {"schemas": {f"dev.penstock.v1alpha1.{kind}": published}}}


POOLS = schema(ROOT / "crds" / "penstock.dev_inferencepools.yaml")


def test_the_crds_of_this_checkout_have_no_skew() -> None:
    assert skew_of(document(POOLS)) == {names.POOL_KIND: AS_BUILT}


def test_an_older_crd_lacks_fields_of_which_the_topmost_are_reported() -> None:
    skew = skew_of(document(schema(EARLIER / "first" / "pool.yaml")))[names.POOL_KIND]
    assert {"spec.weight", "status.candidate", "status.scaling.curve"} <= skew.lacking
    assert not any(path.startswith("status.candidate.") for path in skew.lacking)
    assert skew.unknown == frozenset()
    assert "upgrade the CRDs" in skew.sentence()


def test_a_newer_crd_has_fields_that_this_operator_does_not_know() -> None:
    newer = copy.deepcopy(POOLS)
    newer["properties"]["spec"]["properties"]["colour"] = {"type": "string"}
    skew = skew_of(document(newer))[names.POOL_KIND]
    assert skew == SchemaSkew(unknown=frozenset({"spec.colour"}))
    assert skew.sentence().endswith("upgrade the operator")


def test_other_groups_and_an_empty_document_have_no_skew() -> None:
    assert skew_of({}) == {}
    assert skew_of(document(POOLS, "Other")) == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "file"), [(names.POOL_KIND, "pool.yaml"), (names.POLICY_KIND, "policy.yaml")]
)
def test_schemas_only_grow(version: str, kind: str, file: str) -> None:
    assert field_paths(schema(EARLIER / version / file)) <= known_paths(kind)


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_of_earlier_schemas_are_still_parsed(version: str) -> None:
    for raw in yaml.safe_load_all((EARLIER / version / "objects.yaml").read_text()):
        if raw["kind"] == names.POOL_KIND:
            assert convert.pool_object(raw).status.conditions  # its status too, not an empty one
        else:
            assert convert.policy_object(raw).status.conditions


def test_a_field_is_dropped_in_every_item_of_a_list() -> None:
    body = {"a": {"b": 1, "c": 2}, "list": [{"x": 1, "y": 2}, {"y": 3}]}
    for path in ("a.b", "list.y", "absent.z"):
        drop_field(body, path.split("."))
    assert body == {"a": {"c": 2}, "list": [{"x": 1}, {}]}
