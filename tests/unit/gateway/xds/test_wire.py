"""The messages on the wire are Envoy's, and what they hold is what was meant."""

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from penstock_gateway.resources.pools import EnvoyResource, Kind
from penstock_gateway.xds import wire
from penstock_gateway.xds.session import DeltaRequest, DeltaResponse
from tests.unit.gateway.values import made_of, route


def test_every_resource_is_a_message_of_envoys() -> None:
    configuration = made_of(route("a"))
    pool = configuration.pools["a"]
    for resource in (pool.cluster, pool.endpoints, pool.listener, configuration.readiness):
        message = wire.resource_message(resource)
        assert message.DESCRIPTOR.full_name == resource.kind.rpartition("/")[2]
        assert message.ByteSize() > 0


def test_a_field_that_envoy_has_not_is_an_error_and_no_silence() -> None:
    wrong = EnvoyResource(Kind.CLUSTER, "a", {"name": "a", "conect_timeout": "1s"})
    with pytest.raises(ParseError, match="conect_timeout"):
        wire.resource_message(wrong)


def test_an_option_within_an_extension_is_checked_too() -> None:
    body = dict(made_of(route("a")).pools["a"].cluster.body)
    options = body["typed_extension_protocol_options"]
    ((name, value),) = options.items()
    body["typed_extension_protocol_options"] = {name: {**value, "explicit": {}}}
    with pytest.raises(ParseError, match="explicit"):
        wire.resource_message(EnvoyResource(Kind.CLUSTER, "a", body))


def test_a_request_keeps_its_subscription_its_versions_and_its_error() -> None:
    message = wire._new("envoy.service.discovery.v3.DeltaDiscoveryRequest")
    fields = {
        "type_url": Kind.ENDPOINTS,
        "resource_names_subscribe": ["a"],
        "resource_names_unsubscribe": ["b"],
        "initial_resource_versions": {"a": "1"},
        "response_nonce": "7",
        "error_detail": {"code": 3, "message": "bad"},
    }
    ParseDict(fields, message, descriptor_pool=wire._pool())
    assert wire.parse_request(message.SerializeToString()) == DeltaRequest(
        Kind.ENDPOINTS, ("a",), ("b",), {"a": "1"}, "7", "bad"
    )
    assert wire.parse_request(b"").error is None


def test_a_response_has_the_resource_or_the_removed_name() -> None:
    endpoints = made_of(route("a")).pools["a"].endpoints
    sent = wire._new("envoy.service.discovery.v3.DeltaDiscoveryResponse")
    sent.ParseFromString(wire.serialize_response(DeltaResponse(Kind.ENDPOINTS, "1", endpoints)))
    (resource,) = sent.resources  # type: ignore[attr-defined]
    assert (resource.name, resource.version) == ("a", endpoints.version)
    removal = DeltaResponse(Kind.LISTENER, "2", removed="a")
    sent.ParseFromString(wire.serialize_response(removal))
    assert MessageToDict(sent) == {
        "typeUrl": Kind.LISTENER.value,
        "nonce": "2",
        "removedResources": ["a"],
    }


def test_equal_content_has_an_equal_version_and_other_content_another() -> None:
    once, again = made_of(route("a")).pools["a"], made_of(route("a")).pools["a"]
    other = made_of(route("a", 10001, ("10.0.0.9",))).pools["a"]
    assert once.endpoints.version == again.endpoints.version != other.endpoints.version
    assert once.listener.version == other.listener.version
