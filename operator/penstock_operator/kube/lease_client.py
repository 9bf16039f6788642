"""Synchronous client of one Lease object, for the election thread."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kubernetes.aio.client.configuration import Configuration

from penstock_operator.errors import cluster_error
from penstock_operator.kube.client import IN_CLUSTER_TOKEN, in_cluster

CALL_SECONDS = 5.0

Json = dict[str, Any]


class LeaseClient:
    """Reads and writes one Lease; each call opens a connection."""

    def __init__(self, configuration: Configuration, namespace: str, name: str) -> None:
        self._url = urlsplit(configuration.host)
        self._configuration = configuration
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._name = name

    @property
    def full_name(self) -> str:
        """Return namespace and name of the Lease."""
        return f"{self._namespace}/{self._name}"

    def read(self) -> Json:
        """Return the Lease. Raises `ClusterError`."""
        return self._call("GET", f"{self._path}/{self._name}", None)

    def write(self, spec: Json, version: str | None) -> Json:
        """Create the Lease, or replace it at `version`. Raises `Conflict` if another process was first."""
        metadata = {"name": self._name, "namespace": self._namespace}
        if version is not None:
            metadata["resourceVersion"] = version
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
        if version is None:
            return self._call("POST", self._path, body)
        return self._call("PUT", f"{self._path}/{self._name}", body)

    def _call(self, method: str, path: str, body: Json | None) -> Json:
        connection = self._connection()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, self._url.path.rstrip("/") + path, content, self._headers())
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status <= 299:
            raise cluster_error(answer.status, data)
        parsed: Json = json.loads(data)
        return parsed

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)
        config = self._configuration
        context = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if config.cert_file:
            context.load_cert_chain(config.cert_file, config.key_file)
        if not config.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=CALL_SECONDS, context=context)

    def _headers(self) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "penstock-operator"}
        if in_cluster():
            headers["Authorization"] = f"Bearer {IN_CLUSTER_TOKEN.read_text().strip()}"
        else:
            keys = self._configuration.api_key
            if token := keys.get("BearerToken") or keys.get("authorization"):
                headers["Authorization"] = token
        return headers
