"""Objects that were stored under earlier CRDs stay valid and served under this checkout's, on the real API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from penstock_operator.observe.cluster.crd_skew import PATH, skew_of
from penstock_operator.schema_skew import AS_BUILT
from tests.integration.api.cases import Object
from tests.support.kube.api import Api, path_of
from tests.support.kube.install import install_crds
from tests.support.kube.pools import until

pytestmark = pytest.mark.integration

EARLIER = Path(__file__).parent / "earlier"
VERSIONS = sorted(folder.name for folder in EARLIER.iterdir() if folder.is_dir())
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
STORED_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "namespace")


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_of_an_earlier_release_stay_valid_and_served(
    api: Api, namespace: str, version: str
) -> None:
    with definitions_of(api, version):
        stored = [store(api, item) for item in objects(version, namespace)]
    try:
        for before in stored:
            path = path_of(before)
            after = api.request("GET", path)
            assert after["spec"] == before["spec"], path
            assert after["status"] == before["status"], path
            api.request(
                "PUT", f"{path}?fieldValidation=Strict", {**after, "metadata": edited(after)}
            )
            api.request("PUT", f"{path}/status?fieldValidation=Strict", api.request("GET", path))
            # no rule of the new schema was skipped because the value is unchanged
            again = {
                **before,
                "metadata": {**named(before), "name": f"{before['metadata']['name']}-2"},
            }
            kind = path.rpartition("/")[0]
            api.request("POST", f"{kind}?fieldValidation=Strict&dryRun=All", again)
    finally:
        for item in stored:
            api.delete(path_of(item))


def objects(version: str, namespace: str) -> Iterator[Object]:
    """Yield a release's objects, pools in the namespace of the test."""
    for item in yaml.safe_load_all((EARLIER / version / "objects.yaml").read_text()):
        for key in STORED_BY_THE_SERVER:
            item["metadata"].pop(key, None)
        if item["kind"] == "InferencePool":
            item["metadata"]["namespace"] = namespace
        yield item


def store(api: Api, item: Object) -> Object:
    """Create an object with its status; return it as it is stored."""
    path = path_of(item)
    api.delete(path)
    created = api.create(item)
    return api.request("PUT", f"{path}/status", {**created, "status": item["status"]})


def named(item: Object) -> Object:
    """Return the part of the metadata that names the object."""
    metadata = item["metadata"]
    return {key: metadata[key] for key in ("name", "namespace") if key in metadata}


def edited(item: Object) -> Object:
    """Return the metadata with a label, so that the object is written again."""
    return {**item["metadata"], "labels": {"edited": "yes"}}


@contextmanager
def definitions_of(api: Api, version: str) -> Iterator[None]:
    """Serve a release's CRDs inside the context, and this checkout's afterwards."""
    try:
        for file in ("pool.yaml", "policy.yaml"):
            definition = yaml.safe_load((EARLIER / version / file).read_text())
            path = DEFINITIONS + definition["metadata"]["name"]
            api.request("PUT", path, {**api.request("GET", path), "spec": definition["spec"]})
        until(f"{version}'s CRDs are served", lambda: not is_current(api), seconds=60)
        yield
    finally:
        install_crds(api)
        until("this checkout's CRDs are served", lambda: is_current(api), seconds=60)


def is_current(api: Api) -> bool:
    """Return whether the API server publishes the schemas of this checkout."""
    return set(skew_of(api.request("GET", PATH)).values()) == {AS_BUILT}
