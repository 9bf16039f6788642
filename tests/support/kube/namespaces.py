"""Namespaces of the tests' own: restricted, labelled, and gone with their pods."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kube.api import Api, Object
from tests.support.kube.pools import until

LABEL = "penstock-tests"
ALL = f"/api/v1/namespaces?labelSelector={LABEL}"


@contextmanager
def namespace(api: Api, prefix: str) -> Iterator[str]:
    """Create a namespace, and begin its deletion at the end."""
    name = f"{prefix}-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted", LABEL: prefix}
    head = {"apiVersion": "v1", "kind": "Namespace"}
    api.create({**head, "metadata": {"name": name, "labels": labels}})
    try:
        yield name
    finally:
        delete_namespace(api, name)


def delete_namespace(api: Api, name: str) -> None:
    """Delete a namespace; nobody is left whom a drain of its pods could serve, so they end at once."""
    api.delete(f"/api/v1/namespaces/{name}")
    api.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=1")


def await_no_pods(api: Api, name: str) -> None:
    """Wait until a forsaken namespace's pods are gone: they take time and GPUs that the next test counts on."""

    def gone() -> bool | str:
        left = [pod["metadata"]["name"] for pod in api.list(f"/api/v1/namespaces/{name}/pods")]
        return not left or ", ".join(left)

    until(f"the pods of {name} gone", gone, seconds=120)


def clear_namespaces(api: Api) -> None:
    """Take away what earlier tests left, those cut short included."""
    left: list[Object] = api.list(ALL)
    names = [one["metadata"]["name"] for one in left]
    for name in names:
        delete_namespace(api, name)
    for name in names:
        await_no_pods(api, name)
