"""`ClusterClient`: access to the API server with the user's kubeconfig; only `tune` writes. Does I/O."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kubernetes import config
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    KubeConfigLoader,
    KubeConfigMerger,
)
from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError, ReadTimeoutError
from yaml import YAMLError

from penstock_api import names
from penstock_kubectl.errors import (
    MayNotRead,
    PluginError,
    PoolNotFound,
    Unreachable,
    WriteRejected,
)

SECONDS = 30.0
LOG_SECONDS = 60.0
"""Pause of a log after which it is requested again."""
NO_SERVICE = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""Answers of the API server's proxy where a host may be no Service."""
FIELD_MANAGER = "kubectl-penstock"
RESOURCES = f"/apis/{names.API_VERSION}"
Object = dict[str, Any]


class ClusterClient:
    """A connection to the API server. Raises `PluginError` with messages for users."""

    def __init__(self, context: str | None = None, kubeconfig: str | None = None) -> None:
        try:
            self._client: Any = config.new_client_from_config(kubeconfig, context)
            merged = KubeConfigMerger(kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).config
            chosen = KubeConfigLoader(merged, active_context=context).current_context
        except (
            ConfigException,
            OSError,
            YAMLError,
            TypeError,
            AttributeError,
            LookupError,
        ) as error:
            file = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
            raise Unreachable(f"the kubeconfig has no usable cluster: {file}: {error}") from error
        self.namespace: str = chosen["context"].get("namespace") or "default"
        """Namespace of the context, as in kubectl."""
        self._server: str = self._client.configuration.host

    def pool(self, namespace: str, name: str) -> Object:
        """Return a pool."""
        path = f"{RESOURCES}/namespaces/{quote(namespace)}/{names.POOL_PLURAL}/{quote(name)}"
        return self.get(path, f"{names.POOL_PLURAL} {namespace}/{name}")

    def policies(self) -> list[Object]:
        """Return all policies. Raises `MayNotRead` if the user may not read them."""
        path = f"{RESOURCES}/{names.POLICY_PLURAL}"
        items: list[Object] = self.get(path, names.POLICY_PLURAL)["items"]
        return items

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace. Raises `MayNotRead` if the user may not read it."""
        item = self.get(f"/api/v1/namespaces/{quote(namespace)}", namespace)
        labels: Mapping[str, str] = item["metadata"].get("labels") or {}
        return labels

    def events(self, namespace: str, uid: str) -> list[Object]:
        """Return the Events about an object; none if they cannot be read, since no decision depends on them."""
        chosen = urlencode({"fieldSelector": f"involvedObject.uid={uid}"})
        path = f"/api/v1/namespaces/{quote(namespace)}/events?{chosen}"
        try:
            items: list[Object] = self.get(path, path)["items"]
        except PluginError:
            return []
        return items

    def batches(self, namespace: str) -> Object:
        """Return the status of a namespace's batch service, through the API server's proxy."""
        service = f"{names.BATCHES_NAME}:{names.BATCHES_STATUS_PORT}"
        path = f"/api/v1/namespaces/{quote(namespace)}/services/{service}/proxy"
        return self.get(path + names.PATH_BATCHES_STATUS, f"the batch service of {namespace}")

    def prometheus(self, url: str, path: str, parameters: Mapping[str, str]) -> Object:
        """Query a Prometheus: in the cluster through the API server's proxy, otherwise directly."""
        query = f"{path}?{urlencode(parameters)}"
        try:
            inside = proxied(url)
            answer = direct(url, query) if inside is None else self._request("GET", inside + query)
            if inside is not None and ".svc" not in url and answer.status in NO_SERVICE:
                with suppress(HTTPError):  # then the reason of the API server is shown
                    answer = direct(url, query)
            result: Object = json.loads(answer.data)
        except (HTTPError, ValueError) as error:
            raise Unreachable(f"Prometheus at {url} cannot be queried: {error}") from error
        if answer.status != 200 or result.get("status") != "success":
            reason = result.get("error") or result.get("message") or f"status {answer.status}"
            raise Unreachable(f"Prometheus at {url} rejected the query: {reason}")
        return result

    def get(self, path: str, what: str) -> Object:
        """Return an object; `what` names it in errors."""
        status, item = self._send("GET", path)
        if status != HTTPStatus.OK:
            raise refused(status, str(item.get("message", status)), what)
        return item

    def find(self, path: str) -> Object | None:
        """Return an object; None if it does not exist."""
        try:
            return self.get(path, path)
        except PoolNotFound:
            return None

    def create(self, path: str, manifest: Object) -> None:
        """Create an object in the collection at `path`."""
        self._write("POST", path, manifest, "application/json")

    def apply(self, path: str, manifest: Object) -> None:
        """Create or change the object at `path` by server-side apply; fields of other managers conflict."""
        query = urlencode({"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"})
        self._write("PATCH", f"{path}?{query}", manifest, "application/apply-patch+yaml")

    def delete(self, path: str) -> bool:
        """Delete an object with what it owns; return whether it existed."""
        status, item = self._send("DELETE", f"{path}?propagationPolicy=Background")
        if status not in {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND}:
            raise WriteRejected(f"DELETE {path}: {item.get('message', status)}")
        return status != HTTPStatus.NOT_FOUND

    def lines(self, path: str, what: str) -> Iterator[str]:
        """Return the lines of a log until it ends or pauses for LOG_SECONDS; `what` names it in errors.

        Raises:
            PoolNotFound: its pod is gone.
            MayNotRead: the user may not read it.
            Unreachable: it cannot be read now, as while its container starts, or not to its end.
        """
        timeout = Timeout(connect=SECONDS, read=LOG_SECONDS)
        try:
            answer = self._request("GET", path, timeout=timeout, preload_content=False)
            if answer.status != HTTPStatus.OK:
                raise refused(answer.status, _reason(answer.data), what)
        except HTTPError as error:
            raise Unreachable(f"{what}: {error}") from error
        return _lines(answer, what)

    def _write(self, method: str, path: str, manifest: Object, content_type: str) -> None:
        status, item = self._send(method, path, json.dumps(manifest), content_type)
        if status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            raise WriteRejected(f"{kind} {name}: {item.get('message', status)}")

    def _send(
        self, method: str, path: str, body: str | None = None, content_type: str = ""
    ) -> tuple[int, Object]:
        headers = {"Content-Type": content_type} if content_type else {}
        try:
            answer = self._request(method, path, body=body, headers=headers)
        except HTTPError as error:
            raise Unreachable(f"{self._server} does not respond: {error}") from error
        try:
            item: Object = json.loads(answer.data)
        except ValueError as error:
            raise Unreachable(f"{self._server} responded {answer.status} without JSON") from error
        return answer.status, item

    def _request(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Accept": "application/json", **more.pop("headers", {})}
        self._client.update_params_for_auth(headers, [], ["BearerToken"])
        return self._client.rest_client.pool_manager.request(
            method,
            self._server + path,
            headers=headers,
            retries=False,
            **{"timeout": SECONDS, **more},
        )


def refused(status: int, reason: str, what: str) -> PluginError:
    """Return the error of a GET of `what` with a status other than 200."""
    if status == HTTPStatus.NOT_FOUND:
        return PoolNotFound(f"{what} not found: check the name, and set its namespace with -n")
    error = MayNotRead if status == HTTPStatus.FORBIDDEN else Unreachable
    return error(f"{what}: {reason}")


def _reason(body: bytes) -> str:
    """Return the message of a Status, or the body as it is."""
    text = body.decode(errors="replace")
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(text)["message"])
    return text


def _lines(answer: BaseHTTPResponse, what: str) -> Iterator[str]:
    rest = b""
    try:
        for chunk in answer.stream():
            *complete, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in complete)
    except ReadTimeoutError:
        return
    except HTTPError as error:
        raise Unreachable(f"{what}: {error}") from error
    if rest:
        yield rest.decode(errors="replace")


def direct(url: str, query: str) -> BaseHTTPResponse:
    """Return the response of a server outside the cluster. Raises `HTTPError`."""
    where = url.rstrip("/") + query
    return PoolManager().request("GET", where, timeout=SECONDS, retries=False, redirect=False)


def proxied(url: str) -> str | None:
    """Return the API server's proxy path of a Service in the cluster; None for any other address.

    A host of two words without `.svc` may be a Service, or a name of a domain.

    Raises:
        ValueError: the port is not a number.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".").removesuffix(".cluster.local")
    words = host.removesuffix(".svc").split(".")
    if len(words) != 2:
        return None
    service, namespace = words
    scheme = "https:" if parts.scheme == "https" else ""
    port = parts.port or (443 if scheme else 80)
    where = f"/api/v1/namespaces/{quote(namespace)}/services/{scheme}{quote(service)}:{port}/proxy"
    return where + parts.path.rstrip("/")
