"""A small JSON client of the API server, for the kubeconfig or the context of the tests."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from kubernetes import config

Object = dict[str, Any]

FIELD_MANAGER = "penstock-tests"
POOLS = "/apis/penstock.dev/v1alpha1"
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_PLURALS = {"InferencePolicy": "inferencepolicies", "NetworkPolicy": "networkpolicies"}
_CLUSTER_WIDE = {
    "Namespace", "InferencePolicy", "PersistentVolume", "ClusterRole", "ClusterRoleBinding",
    "CustomResourceDefinition",
}  # fmt: skip


class ApiError(RuntimeError):
    """The API server returned an error status; the message is the server's."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {_message(body)}")
        self.status = status
        self.message = _message(body)


def _message(body: str) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:500]


class Api:
    """A connection to the API server. Paths are those of the REST API; `get` returns None for an absent object."""

    def __init__(self, kubeconfig: str | None, context: str | None = None) -> None:
        self._client: Any = config.new_client_from_config(config_file=kubeconfig, context=context)
        self._server: str = self._client.configuration.host

    def get(self, path: str) -> Object | None:
        """Return the object, or None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        """Return the items of a list."""
        items: list[Object] = self.request("GET", path)["items"]
        return items

    def apply(self, manifest: Mapping[str, Any], *, namespace: str | None = None) -> Object:
        """Apply server-side, and take over fields of other managers."""
        path = path_of(manifest, namespace)
        query = f"?fieldManager={FIELD_MANAGER}&force=true"
        return self.request("PATCH", path + query, dict(manifest), _APPLY)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Object:
        """Merge-patch, as `kubectl patch --type=merge` does."""
        return self.request("PATCH", path, dict(patch), _MERGE)

    def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create; a conflict is an error."""
        return self.request("POST", path_of(manifest).rpartition("/")[0], dict(manifest))

    def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """Delete in the background; an absent object is no error."""
        body: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if error.status != 404:
                raise

    def text(self, path: str) -> str:
        """Return a plain-text answer: a log, a proxied page."""
        return self._send("GET", path, None, "application/json", "*/*")

    def watch(self, path: str, name: str, version: str, seconds: int) -> Iterator[Object]:
        """Yield the watch events of one object of the collection at `path`."""
        query = f"?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
        headers = {"Accept": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        answer = self._client.rest_client.pool_manager.request(
            "GET", f"{self._server}{path}{query}&timeoutSeconds={seconds}", headers=headers,
            timeout=seconds, retries=False, preload_content=False,
        )  # fmt: skip
        text = b""
        for chunk in answer.stream(65536):
            *lines, text = (text + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield json.loads(line)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Object:
        """Send one request and return its JSON; raises `ApiError`."""
        answer: Object = json.loads(
            self._send(method, path, body, content_type, "application/json")
        )
        return answer

    def _send(self, method: str, path: str, body: Any, content_type: str, accept: str) -> str:
        headers = {"Content-Type": content_type, "Accept": accept}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        answer = self._client.rest_client.pool_manager.request(
            method, self._server + path, body=None if body is None else json.dumps(body),
            headers=headers, timeout=30, retries=False,
        )  # fmt: skip
        text: str = answer.data.decode(errors="replace")
        if answer.status >= 400:
            raise ApiError(answer.status, text)
        return text


def path_of(manifest: Mapping[str, Any], namespace: str | None = None) -> str:
    """Return the REST path of the object that a manifest describes."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, kind.lower() + "s")
    name = manifest["metadata"]["name"]
    if kind in _CLUSTER_WIDE:
        return f"{root}/{plural}/{name}"
    return f"{root}/namespaces/{manifest['metadata'].get('namespace', namespace)}/{plural}/{name}"


def load_all(text: str) -> list[Object]:
    """Return every document of a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]
