"""Conversion between the messages of the discovery protocol and plain values.

`envoy.binpb.gz` holds the descriptors of the messages that this gateway sends, from `xds-protos`
(`penstock_gateway.codegen` writes it); the classes come from a pool of their own. Generated modules would own the
package name `envoy` in the whole process, as other distributions do.
"""

import gzip
from functools import cache
from importlib.resources import files
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from penstock_gateway.resources.pools import EnvoyResource
from penstock_gateway.xds.session import DeltaRequest, DeltaResponse

__all__ = ["SERVICE", "ParseError", "parse_request", "resource_message", "serialize_response"]

SERVICE: Final = "envoy.service.discovery.v3.AggregatedDiscoveryService"
DESCRIPTORS: Final = "envoy.binpb.gz"
_DISCOVERY: Final = "envoy.service.discovery.v3"


def parse_request(data: bytes) -> DeltaRequest:
    """Return the request in a DeltaDiscoveryRequest's bytes."""
    message: Any = _new(f"{_DISCOVERY}.DeltaDiscoveryRequest")
    message.ParseFromString(data)
    return DeltaRequest(
        type_url=message.type_url,
        subscribe=tuple(message.resource_names_subscribe),
        unsubscribe=tuple(message.resource_names_unsubscribe),
        versions=dict(message.initial_resource_versions),
        nonce=message.response_nonce,
        error=message.error_detail.message if message.HasField("error_detail") else None,
    )


def serialize_response(response: DeltaResponse) -> bytes:
    """Return the DeltaDiscoveryResponse of a response."""
    message: Any = _new(f"{_DISCOVERY}.DeltaDiscoveryResponse")
    message.type_url, message.nonce = response.kind.value, response.nonce
    if response.removed is not None:
        message.removed_resources.append(response.removed)
    if response.resource is not None:
        wrapped = message.resources.add(
            name=response.resource.name, version=response.resource.version
        )
        wrapped.resource.type_url = response.kind.value
        wrapped.resource.value = resource_message(response.resource).SerializeToString()
    return bytes(message.SerializeToString())


def resource_message(resource: EnvoyResource) -> Message:
    """Return a resource as Envoy's message.

    Raises:
        ParseError: the body has a field that the message has not, or a value of the wrong type.
    """
    message = _new(resource.kind.rpartition("/")[2])
    return ParseDict(dict(resource.body), message, descriptor_pool=_pool())


def _new(name: str) -> Message:
    return GetMessageClass(_pool().FindMessageTypeByName(name))()


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    packed = (files("penstock_gateway.xds") / DESCRIPTORS).read_bytes()
    for file in FileDescriptorSet.FromString(gzip.decompress(packed)).file:
        pool.Add(file)
    return pool
