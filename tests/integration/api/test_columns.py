"""Columns, categories and field documentation of pools and policies in kubectl."""

import pytest

from tests.integration.api import full
from tests.integration.api.cases import pool
from tests.support.kube.api import Api
from tests.support.kube.target import Target

pytestmark = pytest.mark.integration


def test_kubectl_get_prints_a_pool_on_one_line(api: Api, target: Target, namespace: str) -> None:
    path = f"/apis/penstock.dev/v1alpha1/namespaces/{namespace}/inferencepools"
    api.request("POST", path, pool({}, "shown"))
    api.merge(f"{path}/shown/status", {"status": full.POOL_STATUS})
    shown = target.kubectl("get", "pspool", "shown", "-n", namespace)
    header, line = shown.splitlines()
    assert header.split() == ["NAME", "READY", "REPLICAS", "BATCH", "GPUS", "REASON", "AGE"]
    assert line.split()[:6] == ["shown", "True", "2", "16", "2", "Serving"]


def test_the_category_lists_pools_and_policies(target: Target, namespace: str) -> None:
    names = target.kubectl("api-resources", "--categories=penstock", "-o", "name").split()
    assert set(names) >= {"inferencepools.penstock.dev", "inferencepolicies.penstock.dev"}


def test_kubectl_explain_documents_a_field(target: Target, installed: None) -> None:
    text = target.kubectl("explain", "inferencepools.penstock.dev.spec.batching.mode")
    assert "Fixed: the cap is size.max" in " ".join(text.split())
