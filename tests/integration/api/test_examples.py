"""The real API server accepts the examples of docs, chart and examples/ under strict validation."""

from typing import Any

import pytest
import yaml

from tests.support.kube.api import Api
from tests.support.kube.install import ROOT
from tests.unit.api.examples import examples, files, name_of

pytestmark = pytest.mark.integration

GROUP = "/apis/penstock.dev/v1alpha1"
SAMPLES = [
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "charts" / "penstock" / "samples").glob("*.yaml"))
]


@pytest.mark.parametrize("manifest", [*examples(), *files().values(), *SAMPLES], ids=name_of)
def test_an_example_is_accepted(api: Api, namespace: str, manifest: dict[str, Any]) -> None:
    query = "fieldValidation=Strict&dryRun=All"
    path = f"{GROUP}/namespaces/{namespace}/inferencepools"
    if manifest["kind"] == "InferencePolicy":
        path = f"{GROUP}/inferencepolicies"
    metadata = {"generateName": "example-"}  # the namespaces of the docs do not exist here
    created = api.request("POST", f"{path}?{query}", {**manifest, "metadata": metadata})
    assert created["kind"] == manifest["kind"]
