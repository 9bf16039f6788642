"""The Service of a pool: its types, its live edits, and what a policy's bounds leave of them."""

from typing import Any

import pytest

from penstock_operator.decide.manifests.diff import digest
from tests.unit.operator.decide.world import World, message, policy, pool, settled, written

KEY = ("Service", "chat")


def manifest(**service: Any) -> dict[str, Any]:
    world = World(pool=pool(service=service))
    world.settle()
    return dict(world.children[KEY].manifest)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ({}, {"type": "ClusterIP"}),
        ({"type": "ClusterIP"}, {"type": "ClusterIP"}),
        ({"type": "Headless"}, {"type": "ClusterIP", "clusterIP": "None"}),
        (
            {"type": "NodePort", "externalTrafficPolicy": "Local"},
            {"type": "NodePort", "externalTrafficPolicy": "Local"},
        ),
        (
            {
                "type": "LoadBalancer",
                "loadBalancerClass": "example.com/internal",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
            {
                "type": "LoadBalancer",
                "loadBalancerClass": "example.com/internal",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
        ),
    ],
)
def test_a_type_sets_the_fields_of_core_v1(
    service: dict[str, Any], expected: dict[str, Any]
) -> None:
    spec = manifest(**service)["spec"]
    assert {key: spec[key] for key in spec if key not in ("ports", "selector")} == expected
    assert [port["port"] for port in spec["ports"]] == [8000], "never the control API"


def test_a_node_port_belongs_to_the_client_port() -> None:
    (port,) = manifest(type="NodePort", nodePort=30080)["spec"]["ports"]
    assert (port["name"], port["nodePort"]) == ("http", 30080)


def test_annotations_are_added_to_the_operators() -> None:
    own = {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}
    assert manifest(annotations=own)["metadata"]["annotations"].items() >= own.items()


def test_a_pool_without_a_service_field_keeps_the_service_of_earlier_versions() -> None:
    stored = manifest()
    del stored["metadata"]["annotations"]
    assert digest(stored) == "97249bd5f6"


def test_an_edit_of_the_service_is_live_and_rolls_no_pod() -> None:
    world = settled()
    before = world.template
    world.edit_spec(service={"type": "LoadBalancer", "annotations": {"example.com/a": "1"}})
    assert written(world.settle()) == [("Apply", *KEY)]
    assert world.template == before
    assert world.children[KEY].manifest["spec"]["type"] == "LoadBalancer"
    assert world.run().writes == ()


@pytest.mark.parametrize(("old", "new"), [("ClusterIP", "Headless"), ("Headless", "NodePort")])
def test_a_service_that_gains_or_loses_its_address_is_created_again(old: str, new: str) -> None:
    world = settled(pool=pool(service={"type": old}))
    world.edit_spec(service={"type": new})
    assert written(world.settle()) == [("Delete", *KEY)]
    assert written(world.settle()) == [("Create", *KEY)]
    assert world.run().writes == ()


def bounded(**bounds: Any) -> World:
    service = {
        "type": "LoadBalancer",
        "loadBalancerClass": "example.com/internal",
        "annotations": {"example.com/team": "a", "external-dns.alpha.kubernetes.io/hostname": "x"},
    }
    policies = (policy("edge", bounds={"service": bounds}),)
    world = World(pool=pool(service=service), policies=policies)
    world.settle()
    return world


def test_a_type_outside_the_bounds_becomes_an_internal_one_and_the_status_says_so() -> None:
    world = bounded(allowedTypes=[])
    spec = world.children[KEY].manifest["spec"]
    assert {spec["type"], "loadBalancerClass" in spec} == {"ClusterIP", False}
    limited = "spec.service.type LoadBalancer is limited to ClusterIP by policy edge"
    assert limited in message(world.run(), "PolicyApplied")
    world.policies = ()
    world.settle()
    assert world.children[KEY].manifest["spec"]["type"] == "LoadBalancer"


def test_annotations_outside_the_bounds_are_left_out() -> None:
    world = bounded(allowedAnnotations=["example.com/"])
    annotations = world.children[KEY].manifest["metadata"]["annotations"]
    assert "example.com/team" in annotations
    assert "external-dns.alpha.kubernetes.io/hostname" not in annotations
    assert "limited to example.com/team by policy edge" in message(world.run(), "PolicyApplied")


@pytest.mark.parametrize("bounds", [{}, {"allowedTypes": ["LoadBalancer"]}])
def test_an_absent_list_and_an_allowed_type_bound_nothing(bounds: dict[str, Any]) -> None:
    world = bounded(**bounds)
    assert world.children[KEY].manifest["spec"]["type"] == "LoadBalancer"
    assert world.run().status.bounded == ()


def test_internal_types_are_always_allowed_and_several_policies_intersect() -> None:
    policies = (
        policy("a", bounds={"service": {"allowedTypes": [], "allowedAnnotations": ["x/"]}}),
        policy("b", bounds={"service": {"allowedTypes": [], "allowedAnnotations": ["y/"]}}),
    )
    service = {"type": "Headless", "annotations": {"x/1": "", "y/1": "", "z/1": ""}}
    world = World(pool=pool(service=service), policies=policies)
    world.settle()
    assert world.children[KEY].manifest["spec"]["clusterIP"] == "None"
    (field,) = world.run().status.bounded or ()
    assert (field.field, field.granted) == ("spec.service.annotations", "x/1")
    annotations = world.children[KEY].manifest["metadata"]["annotations"]
    assert not [key for key in annotations if key.startswith(("x/", "y/", "z/"))]
