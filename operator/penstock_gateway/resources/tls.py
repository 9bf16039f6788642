"""TLS of a pool: what its clients are served with, and how Envoy calls pods that serve TLS themselves."""

from typing import Any, Final

from penstock_gateway.config import GatewaySettings
from penstock_gateway.objects import PoolCertificate
from penstock_gateway.snapshot import Route

Json = dict[str, Any]

HANDSHAKE_SECONDS: Final = "10s"
SECURE_ENDPOINT: Final[Json] = {"filter_metadata": {"envoy.transport_socket_match": {"tls": True}}}
"""Metadata of a pod that serves TLS: during a rollout of `spec.tls` pods of both kinds are endpoints."""
_TLS: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_RAW: Final = "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
_VERSIONS: Final = {"tls_minimum_protocol_version": "TLSv1_2"}


def serving_tls(pool: str) -> Json:
    """Return the part of a filter chain that serves the pool's certificate, with HTTP/2 by ALPN.

    The certificate comes by SDS: a renewed one is used by new connections and ends none. A listener waits for its first
    one, and the former listener stays in force meanwhile.
    """
    source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    context = {
        "@type": f"{_TLS}.DownstreamTlsContext",
        "common_tls_context": {
            "tls_params": _VERSIONS,
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificate_sds_secret_configs": [{"name": pool, "sds_config": source}],
        },
    }
    return {
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context},
        "transport_socket_connect_timeout": HANDSHAKE_SECONDS,
    }


def secret(pool: str, certificate: PoolCertificate) -> Json:
    """Return the certificate and its key as Envoy's Secret."""
    pair = {
        "certificate_chain": {"inline_string": certificate.chain},
        "private_key": {"inline_string": certificate.key},
    }
    return {"name": pool, "tls_certificate": pair}


def transport_sockets(route: Route, settings: GatewaySettings) -> Json:
    """Return how Envoy connects to each endpoint of a pool that serves TLS, or has done so; empty for plain pools.

    With CAs a pod must have a certificate of theirs for `<pool>.<namespace>.svc`; without, it is not verified.
    """
    if route.certificate is None and not any(pod.secure for pod in route.endpoints):
        return {}
    name = f"{route.pool}.{settings.namespace}.svc"
    common: Json = {"tls_params": _VERSIONS}
    if route.certificate is not None and route.certificate.authorities:
        common["validation_context"] = {
            "trusted_ca": {"inline_string": route.certificate.authorities},
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": name}}],
        }
    context = {"@type": f"{_TLS}.UpstreamTlsContext", "sni": name, "common_tls_context": common}
    tls = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    raw = {"name": "envoy.transport_sockets.raw_buffer", "typed_config": {"@type": _RAW}}
    return {
        "transport_socket_matches": [
            {"name": "tls", "match": {"tls": True}, "transport_socket": tls},
            {"name": "plain", "match": {}, "transport_socket": raw},
        ]
    }
