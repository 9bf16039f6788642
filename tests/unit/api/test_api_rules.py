"""Walks the generated CRDs for the rules of docs/design/design.md#api-rules."""

import re
from typing import Any

import pytest

from tests.unit.api.crds import FILES, Schema, load, nodes, of_type, own_nodes, root

KINDS = {"InferencePool", "InferencePolicy"}
OWN_BOOLEANS = {"readOnly"}
"""core/v1's own, word for word."""
QUANTITIES_BY_NATURE = {
    "replicas",
    "addedReplicas",
    "linesLeft",
    "batchSizes[]",
    "maxBatchedTokens",
    "pods",
    "nodes",
    "count",
    "min",
    "max",
    "cap",
    "recommendedCap",
    "plannedCap",
    "accelerators",
    "generation",
    "observedGeneration",
    "priority",
    "used",
    "targetPerReplica",
    "readyReplicas",
    "desiredReplicas",
    "minReplicas",
    "maxReplicas",
    "acknowledgedPods",
    "matchedPools",
    "maxQueueDepth",
    "maxHeldRequests",
    "heldRequests",
    "waiting",
    "weight",
    "actualReplicas",
    "wanted",
    "granted",
    "contextLength",
    "maxSequences",
    "tensor",
    "pipeline",
    "data",
    "maxSkew",
    "nodePort",
    "minDomains",
}
"""Numbers that count things: replicas, rows, requests, pods, devices, generations."""
IDS = {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups[]"}
"""Numbers that name a user or a group, as core/v1."""
UNITS = re.compile(r"(Milliseconds|[sS]econds|Minutes|Percent|PercentPerMinute|PerSecond)$")


def camel(name: str) -> bool:
    return re.fullmatch(r"[a-z][A-Za-z0-9]*", name) is not None


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def crd(request: pytest.FixtureRequest) -> Schema:
    return load(request.param)


def test_there_is_one_file_a_kind() -> None:
    assert {load(file)["spec"]["names"]["kind"] for file in FILES} == KINDS


def test_every_file_is_below_256_kibibytes() -> None:
    assert all(file.stat().st_size < 256 * 1024 for file in FILES)


def test_the_status_is_a_subresource_and_unknown_fields_are_never_kept(crd: Schema) -> None:
    (version,) = crd["spec"]["versions"]
    assert version["subresources"]["status"] == {}
    assert "preserveUnknownFields" not in crd["spec"]
    assert not [p for p, node in nodes(root(crd)) if "x-kubernetes-preserve-unknown-fields" in node]


def test_the_pool_scales_and_prints_what_people_look_for() -> None:
    (crd,) = [load(file) for file in FILES if "pools" in file.name]
    (version,) = crd["spec"]["versions"]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    narrow = [
        column["name"]
        for column in version["additionalPrinterColumns"]
        if not column.get("priority")
    ]
    assert narrow == [
        *("Model", "Ready", "Batch", "Mode", "On-Time%", "Limited-By", "Stalled", "Age")
    ]
    assert crd["spec"]["names"]["shortNames"] == ["pspool", "ipool"]
    assert crd["spec"]["scope"] == "Namespaced"


def test_the_policy_is_of_the_cluster() -> None:
    (crd,) = [load(file) for file in FILES if "policies" in file.name]
    assert crd["spec"]["scope"] == "Cluster"
    assert crd["spec"]["names"]["shortNames"] == ["pspolicy", "ipolicy"]
    assert "penstock" in crd["spec"]["names"]["categories"]


def test_every_printer_column_shows_a_field_that_exists(crd: Schema) -> None:
    paths = {path for path, _ in nodes(root(crd))}
    (version,) = crd["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        path = re.sub(r"\[.*?\]", "[]", column["jsonPath"]).lstrip(".")
        assert path in paths or path == "metadata.creationTimestamp", column


def test_field_names_are_camel_case() -> None:
    names = {path.split(".")[-1].removesuffix("[]") for _, path, _ in own_nodes()}
    assert [name for name in sorted(names) if name != "*" and not camel(name)] == []


def test_there_are_no_floats() -> None:
    assert of_type("number") == []


def test_booleans_are_core_v1s_own() -> None:
    assert {path.split(".")[-1] for path, _ in of_type("boolean")} <= OWN_BOOLEANS


def test_numbers_have_both_bounds_and_a_format() -> None:
    bad = [
        path
        for path, node in of_type("integer")
        if not {"minimum", "maximum", "format"} <= node.keys()
    ]
    assert bad == []


def test_numbers_name_their_unit_unless_they_count() -> None:
    bad = []
    for path, _ in of_type("integer"):
        name = path.split(".")[-1].split(" ")[-1]
        if not UNITS.search(name) and name not in QUANTITIES_BY_NATURE | IDS:
            bad.append(path)
    assert bad == []


def test_no_number_has_a_bound_that_a_double_cannot_hold() -> None:
    for path, node in of_type("integer"):
        assert node["maximum"] <= 2**53 - 1, path
        assert (node["format"] == "int32") == (node["maximum"] < 2**31), path


def test_strings_are_enums_or_bounded() -> None:
    assert [p for p, node in of_type("string") if not {"enum", "maxLength"} & node.keys()] == []


def test_enum_values_are_camel_case() -> None:
    values = {value for _, _, node in own_nodes() for value in node.get("enum", ())}
    assert [
        value for value in sorted(values) if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", value)
    ] == []


def test_a_status_has_no_enum_so_that_older_clients_accept_newer_words() -> None:
    enums = [path for _, path, node in own_nodes() if path.startswith("status") and "enum" in node]
    assert set(enums) == {"status.conditions[].status"}  # meta/v1's own


def test_quantities_are_bounded_and_never_negative() -> None:
    int_or_string = [(p, n) for _, p, n in own_nodes() if n.get("x-kubernetes-int-or-string")]
    assert int_or_string
    for path, node in int_or_string:
        assert {"pattern", "maxLength", "minimum"} <= node.keys(), path


def test_lists_are_bounded_and_say_how_they_merge() -> None:
    for path, node in of_type("array"):
        assert "maxItems" in node, path
        assert node["x-kubernetes-list-type"] in ("map", "set", "atomic"), path


def test_the_keys_of_list_maps_are_required() -> None:
    for path, node in of_type("array"):
        keys = node.get("x-kubernetes-list-map-keys", [])
        assert bool(keys) == (node["x-kubernetes-list-type"] == "map"), path
        assert set(keys) <= set(node["items"].get("required", [])), path


def test_selectors_and_references_are_replaced_whole() -> None:
    for path, node in of_type("object"):
        members = set(node.get("properties", {}))
        if members in ({"name"}, {"name", "key"}, {"matchLabels", "matchExpressions"}):
            assert node["x-kubernetes-map-type"] == "atomic", path


def test_maps_are_bounded() -> None:
    maps = [(p, n) for p, n in of_type("object") if "additionalProperties" in n]
    assert maps
    assert [path for path, node in maps if "maxProperties" not in node] == []
    assert [path for path, node in maps if "properties" in node] == []


def test_every_object_says_what_it_holds() -> None:
    bad = [
        path
        for path, node in of_type("object")
        if not {"properties", "additionalProperties"} & node.keys()
    ]
    assert bad == []


def test_the_only_defaults_are_the_pools_replicas_and_an_unobserved_status() -> None:
    undescribed = [
        (crd["spec"]["names"]["kind"], path, node["default"])
        for crd in map(load, FILES)
        for path, node in nodes(root(crd))
        if "default" in node
    ]
    unobserved = {"observedGeneration": -1}  # kstatus counts an absent one as observed
    assert sorted(undescribed, key=str) == [
        ("InferencePolicy", "status", unobserved),
        ("InferencePool", "spec.replicas", 1),
        ("InferencePool", "status", unobserved),
    ]


def test_every_field_has_a_description() -> None:
    bad = [
        f"{kind} {path}"
        for kind, path, node in own_nodes()
        if not path.endswith(("*", "[]")) and not node.get("description")
    ]
    assert bad == []


def test_conditions_have_the_shape_of_meta_v1() -> None:
    condition_lists = [(k, n["items"]) for k, p, n in own_nodes() if p.endswith("conditions")]
    assert {kind for kind, _ in condition_lists} == KINDS
    for _, item in condition_lists:
        assert set(item["properties"]) == {
            "type",
            "status",
            "reason",
            "message",
            "observedGeneration",
            "lastTransitionTime",
        }
        assert set(item["required"]) == {
            "type",
            "status",
            "reason",
            "message",
            "lastTransitionTime",
        }
        assert item["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
        assert item["properties"]["lastTransitionTime"]["format"] == "date-time"


def test_a_union_has_a_discriminator_that_its_rules_tie_to_its_members() -> None:
    (source,) = [n for k, p, n in own_nodes() if (k, p) == ("InferencePool", "spec.model.source")]
    assert "type" in source["required"]
    text = " ".join(rule["rule"] for rule in source["x-kubernetes-validations"])
    for value in source["properties"]["type"]["enum"]:
        member = value[0].lower() + value[1:]
        assert member in source["properties"]
        assert f"has(self.{member}) == (self.type == '{value}')" in text


def rules(crd: Schema) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, rule)
        for path, node in nodes(root(crd))
        for rule in node.get("x-kubernetes-validations", ())
    ]


def test_every_rule_shows_the_value_it_rejects_and_a_remedy(crd: Schema) -> None:
    for path, rule in rules(crd):
        assert "message" not in rule, path
        said = rule["messageExpression"]
        assert "%s" in said, path
        assert ".format([" in said, path
        assert re.search(r"[:;,] ", said), path


def test_every_placeholder_of_a_message_has_its_value(crd: Schema) -> None:
    for path, rule in rules(crd):
        text, _, values = rule["messageExpression"].partition("'.format([")
        assert text.count("%s") == values.count("dyn(") - values.count("'.format(") * 3, path


def test_policies_never_set_a_mode_or_a_template() -> None:
    paths = {path for kind, path, _ in own_nodes() if kind == "InferencePolicy"}
    assert "spec.defaults.scaling.minReplicas" in paths
    assert (
        not {
            "spec.defaults.scaling.mode",
            "spec.defaults.batching.mode",
            "spec.defaults.template",
        }
        & paths
    )


def test_a_pool_never_says_where_prometheus_is() -> None:
    paths = {path for kind, path, _ in own_nodes() if kind == "InferencePool"}
    assert not [path for path in paths if path.startswith("spec") and "rometheus" in path]


def test_a_template_offers_nothing_that_leaves_the_sandbox() -> None:
    names = {path.split(".")[-1] for _, path, _ in own_nodes()}
    assert not names & {
        "hostPath",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "privileged",
        "capabilities",
    }


def test_a_security_context_has_ids_and_nothing_else() -> None:
    (context,) = [node for _, path, node in own_nodes() if path.endswith("securityContext")]
    assert set(context["properties"]) == {
        "ids",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "supplementalGroups",
    }
    assert context["properties"]["runAsUser"]["minimum"] == 1, "never root"
