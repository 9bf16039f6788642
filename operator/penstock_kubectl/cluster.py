"""The API server by the user's own kubeconfig: read only. An edge."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kubernetes import config
from kubernetes.config import ConfigException
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

from penstock_api import names
from penstock_kubectl.errors import PluginError, PoolNotFound, Unreachable

SECONDS = 30.0
RESOURCES = f"/apis/{names.API_VERSION}"
Object = dict[str, Any]


class ClusterClient:
    """A connection to the API server. Raises `PluginError` in words that a user understands."""

    def __init__(self, context: str | None = None, kubeconfig: str | None = None) -> None:
        try:
            self._client: Any = config.new_client_from_config(kubeconfig, context)
            contexts, current = config.list_kube_config_contexts(kubeconfig)
        except (ConfigException, OSError) as error:
            raise Unreachable(f"no cluster by this kubeconfig: {error}") from error
        chosen = next((one for one in contexts if one["name"] == context), current)
        self.namespace: str = chosen["context"].get("namespace") or "default"
        """Of the context, as kubectl has it."""
        self._server: str = self._client.configuration.host

    def pool(self, namespace: str, name: str) -> Object:
        """Return a pool as it is."""
        path = f"{RESOURCES}/namespaces/{quote(namespace)}/{names.POOL_PLURAL}/{quote(name)}"
        return self._object(path, f"{names.POOL_PLURAL} {namespace}/{name}")

    def policies(self) -> list[Object]:
        """Return all policies; none where the user may not read them."""
        return self._list(f"{RESOURCES}/{names.POLICY_PLURAL}")

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's labels; none where the user may not read it."""
        try:
            found = self._object(f"/api/v1/namespaces/{quote(namespace)}", namespace)
        except PluginError:
            return {}
        labels: Mapping[str, str] = found["metadata"].get("labels") or {}
        return labels

    def events(self, namespace: str, uid: str) -> list[Object]:
        """Return the Events about an object."""
        chosen = urlencode({"fieldSelector": f"involvedObject.uid={uid}"})
        return self._list(f"/api/v1/namespaces/{quote(namespace)}/events?{chosen}")

    def config_map(self, namespace: str, name: str) -> Object | None:
        """Return a ConfigMap; None where there is none, or it may not be read."""
        path = f"/api/v1/namespaces/{quote(namespace)}/configmaps/{quote(name)}"
        try:
            return self._object(path, name)
        except PluginError:
            return None

    def prometheus(self, url: str, path: str, question: Mapping[str, str]) -> Object:
        """Ask a Prometheus: one in the cluster through the API server's proxy, another one directly."""
        inside = proxied(url)
        query = f"{path}?{urlencode(question)}"
        try:
            if inside is None:
                answer = PoolManager().request(
                    "GET", url.rstrip("/") + query, timeout=SECONDS, retries=False, redirect=False
                )
            else:
                answer = self._get(inside + query)
            found: Object = json.loads(answer.data)
        except (HTTPError, ValueError) as error:
            raise Unreachable(f"Prometheus at {url} does not answer: {error}") from error
        if answer.status != 200 or found.get("status") != "success":
            said = found.get("error") or found.get("message") or f"status {answer.status}"
            raise Unreachable(f"Prometheus at {url} refuses: {said}")
        return found

    def _list(self, path: str) -> list[Object]:
        try:
            items: list[Object] = self._object(path, path)["items"]
        except PluginError:
            return []
        return items

    def _object(self, path: str, what: str) -> Object:
        try:
            answer = self._get(path)
        except HTTPError as error:
            raise Unreachable(f"{self._server} does not answer: {error}") from error
        if answer.status == 404:
            raise PoolNotFound(f"{what} not found: name it, and its namespace with -n")
        try:
            found: Object = json.loads(answer.data)
        except ValueError as error:
            raise Unreachable(f"{self._server} answered {answer.status}, not in JSON") from error
        if answer.status != 200:
            raise Unreachable(f"{what}: {found.get('message', answer.status)}")
        return found

    def _get(self, path: str) -> Any:
        headers = {"Accept": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        return self._client.rest_client.pool_manager.request(
            "GET", self._server + path, headers=headers, timeout=SECONDS, retries=False
        )


def proxied(url: str) -> str | None:
    """Return the API server's proxy path to a Service that only the cluster can reach; None for another address."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".").removesuffix(".cluster.local")
    words = host.removesuffix(".svc").split(".")
    if len(words) != 2 or (not host.endswith(".svc") and "." not in host):
        return None
    service, namespace = words
    scheme = "https:" if parts.scheme == "https" else ""
    port = parts.port or (443 if scheme else 80)
    where = f"/api/v1/namespaces/{quote(namespace)}/services/{scheme}{quote(service)}:{port}/proxy"
    return where + parts.path.rstrip("/")
