"""Namespaces for tests: restricted, labelled, and deleted together with their pods."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kube.api import Api, Object
from tests.support.kube.pools import until

LABEL = "penstock-tests"
ALL = f"/api/v1/namespaces?labelSelector={LABEL}"


@contextmanager
def namespace(api: Api, prefix: str) -> Iterator[str]:
    """Create a namespace, and start its deletion at the end."""
    name = f"{prefix}-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted", LABEL: prefix}
    head = {"apiVersion": "v1", "kind": "Namespace"}
    api.create({**head, "metadata": {"name": name, "labels": labels}})
    try:
        yield name
    finally:
        delete_namespace(api, name)


@contextmanager
def named_namespace(api: Api, name: str, prefix: str) -> Iterator[None]:
    """Create a namespace of this name, without pod security, and start its deletion at the end."""
    path = f"/api/v1/namespaces/{name}"
    until(f"an older namespace {name} gone", lambda: api.get(path) is None, seconds=120)
    head = {"apiVersion": "v1", "kind": "Namespace"}
    api.create({**head, "metadata": {"name": name, "labels": {LABEL: prefix}}})
    try:
        yield
    finally:
        delete_namespace(api, name)


def delete_namespace(api: Api, name: str) -> None:
    """Delete a namespace and end its pods at once; no client is left that a drain could serve."""
    api.delete(f"/api/v1/namespaces/{name}")
    api.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=1")


def await_no_pods(api: Api, name: str) -> None:
    """Wait until a deleted namespace's pods are gone: the next test needs their processor time and GPUs."""

    def gone() -> bool | str:
        left = [pod["metadata"]["name"] for pod in api.list(f"/api/v1/namespaces/{name}/pods")]
        return not left or ", ".join(left)

    until(f"the pods of {name} gone", gone, seconds=120)


def clear_namespaces(api: Api) -> None:
    """Delete the namespaces that earlier tests left, including interrupted ones."""
    left: list[Object] = api.list(ALL)
    names = [namespace["metadata"]["name"] for namespace in left]
    for name in names:
        delete_namespace(api, name)
    for name in names:
        await_no_pods(api, name)
