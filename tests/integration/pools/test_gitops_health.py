"""Pools on a real API server have the health that kstatus, Flux and Argo CD should see."""

import pytest

from tests.integration.pools.test_children import BARE
from tests.support.gitops.evaluate import GitOpsTools
from tests.support.kube.api import POOLS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import UNOBSERVED, PoolHandle, emulated, until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]
"""Go takes minutes to build the tool."""

FINALIZER = "example.com/kept"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> GitOpsTools:
    return GitOpsTools(tmp_path_factory.mktemp("gitops"))


def health(tools: GitOpsTools, pool: PoolHandle) -> tuple[str, str, str]:
    """Return the words of kstatus, Flux and Argo CD."""
    (verdicts,) = tools.verdicts([pool.get()])
    return verdicts.kstatus.status, verdicts.flux.status, verdicts.argocd.status


def test_a_pool_and_a_policy_without_an_operator_are_in_progress(
    api: Api, operator: OperatorProcess, namespace: str, tools: GitOpsTools
) -> None:
    pool, policy = PoolHandle(api, namespace, "chat"), f"{POOLS}/inferencepolicies/{namespace}"
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    with operator.down():
        pool.apply(BARE)
        api.apply({**head, "metadata": {"name": namespace}, "spec": {}})
        assert pool.status() == UNOBSERVED
        assert api.request("GET", policy)["status"] == UNOBSERVED
        assert health(tools, pool) == ("InProgress", "InProgress", "Progressing")
    try:
        pool.await_zero()
        assert health(tools, pool) == ("InProgress", "Current", "Healthy")
        until(
            "the policy is observed",
            lambda: api.request("GET", policy)["status"]["observedGeneration"] == 1,
        )
    finally:
        api.delete(policy)


def test_a_pool_whose_image_is_missing_is_degraded_until_it_is_replaced(
    pool: PoolHandle, tools: GitOpsTools
) -> None:
    pool.apply({**emulated(replicas=1), "runtime": {"image": "localhost/no-such-image:1"}})
    pool.await_condition("Stalled", "True", "ImagePullFailed", seconds=60)
    assert health(tools, pool) == ("Failed", "Failed", "Degraded")
    pool.edit({"replicas": 0, "runtime": {"image": "localhost/penstock-busybox:1"}})
    pool.await_zero()
    until("no longer degraded", lambda: health(tools, pool) == ("InProgress", "Current", "Healthy"))
    assert pool.condition("Stalled") == {}


def test_a_pool_whose_pod_no_node_takes_is_in_progress_at_first(
    pool: PoolHandle, tools: GitOpsTools
) -> None:
    absent = {"resourceName": "example.com/absent", "count": 1}
    pool.apply({**emulated(replicas=1), "accelerator": absent})
    pool.await_condition("Reconciling", "True", "Unschedulable", seconds=60)
    assert health(tools, pool) == ("InProgress", "InProgress", "Progressing")


def test_a_pool_that_is_being_deleted_is_in_progress(
    api: Api, pool: PoolHandle, tools: GitOpsTools
) -> None:
    pool.apply(BARE)
    pool.await_zero()
    api.merge(pool.path, {"metadata": {"finalizers": [FINALIZER]}})
    pool.delete()
    try:
        assert health(tools, pool) == ("Terminating", "InProgress", "Progressing")
    finally:
        api.merge(pool.path, {"metadata": {"finalizers": None}})
