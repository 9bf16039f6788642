"""Columns, categories and field documentation of pools and policies in kubectl."""

import pytest

from tests.integration.api import full
from tests.integration.api.cases import policy, pool
from tests.support.kube.api import Api
from tests.support.kube.target import Target

pytestmark = pytest.mark.integration


def test_kubectl_get_prints_a_pool_on_one_line(api: Api, target: Target, namespace: str) -> None:
    path = f"/apis/penstock.dev/v1alpha1/namespaces/{namespace}/inferencepools"
    api.request("POST", path, pool({}, "shown"))
    api.merge(f"{path}/shown/status", {"status": full.POOL_STATUS})
    shown = target.kubectl("get", "pspool", "shown", "-n", namespace)
    header, line = shown.splitlines()
    assert header.split() == [
        *("NAME", "MODEL", "READY", "BATCH", "MODE", "ON-TIME%", "LIMITED-BY", "STALLED", "AGE")
    ]
    assert line.split()[:7] == ["shown", "served-name", "2/3", "16", "Auto", "99.4", "GpuBudget"]
    wide = target.kubectl("get", "ipool", "shown", "-n", namespace, "-o", "wide").split()
    assert {"Serving", "http://good.team-a.svc:8000"} <= set(wide)
    stuck = [{**full.CONDITION, "type": "Stalled", "reason": "ModelLoadFailed"}]
    api.merge(f"{path}/shown/status", {"status": {"conditions": stuck}})
    assert "ModelLoadFailed" in target.kubectl("get", "pspool", "shown", "-n", namespace)


def test_kubectl_get_prints_a_policy_on_one_line(api: Api, target: Target, installed: None) -> None:
    path = "/apis/penstock.dev/v1alpha1/inferencepolicies"
    api.delete(f"{path}/shown")
    api.create(policy({"priority": 7, "poolSelector": {"matchLabels": {"no": "pool"}}}, "shown"))
    try:
        api.merge(f"{path}/shown/status", {"status": full.POLICY_STATUS})
        header, line = target.kubectl("get", "ipolicy", "shown").splitlines()
    finally:
        api.delete(f"{path}/shown")
    assert header.split() == [
        *("NAME", "PRIORITY", "POOLS", "ACCEPTED", "CONFLICTED", "GPUS", "EXHAUSTED", "AGE")
    ]
    assert line.split()[:7] == ["shown", "7", "3", "True", "False", "5", "True"]


def test_the_category_lists_pools_and_policies(target: Target, namespace: str) -> None:
    names = target.kubectl("api-resources", "--categories=penstock", "-o", "name").split()
    assert set(names) >= {"inferencepools.penstock.dev", "inferencepolicies.penstock.dev"}


def test_kubectl_explain_documents_a_field(target: Target, installed: None) -> None:
    text = target.kubectl("explain", "inferencepools.penstock.dev.spec.batching.mode")
    assert "Fixed: the cap is size.max" in " ".join(text.split())
