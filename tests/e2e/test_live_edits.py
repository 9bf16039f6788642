"""Edits of live fields reach running pods within seconds and restart none."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Figure
from tests.support.kube.api import Api
from tests.support.kube.pods import metrics, restarts
from tests.support.kube.pools import PoolHandle, until

ACKNOWLEDGED_WITHIN_SECONDS = 5.0
POLICY = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
POLICY_PATH = "/apis/penstock.dev/v1alpha1/inferencepolicies/e2e-live"


def caps(api: Api, pool: PoolHandle) -> list[float]:
    """Return the cap that each pod applies, by its metrics."""
    return [metrics(api, pod)["penstock_batch_cap"] for pod in pool.pods()]


def generations(api: Api, pool: PoolHandle) -> set[float]:
    """Return the generations of limits that the pods apply."""
    return {metrics(api, pod)["penstock_limits_generation"] for pod in pool.pods()}


def test_a_live_edit_is_acknowledged_by_all_pods_within_five_seconds(
    api: Api, steady: PoolHandle, figure: Figure
) -> None:
    steady.await_acknowledged()
    before, names = steady.status()["batch"]["generation"], steady.pod_names()
    began = time.monotonic()
    steady.edit({"batching": {"mode": "Fixed", "size": {"max": 7}, "maxQueueDelayMilliseconds": 3}})
    steady.await_acknowledged(before, seconds=ACKNOWLEDGED_WITHIN_SECONDS)
    took = time.monotonic() - began
    assert caps(api, steady) == [7, 7]
    assert generations(api, steady) == {steady.status()["batch"]["generation"]}
    assert took < ACKNOWLEDGED_WITHIN_SECONDS
    assert steady.pod_names() == names
    assert all(restarts(pod) == 0 for pod in steady.pods())
    figure(f"live edit acknowledged by all pods after {took:.2f} s")


@pytest.fixture
def policy(api: Api, steady: PoolHandle) -> Iterator[str]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": steady.namespace}}
    spec = {
        "namespaceSelector": selector,
        "bounds": {"batchSize": {"max": 3}, "replicas": {"max": 1}},
    }
    api.apply({**POLICY, "metadata": {"name": "e2e-live"}, "spec": spec})
    yield POLICY_PATH
    api.delete(POLICY_PATH)


def test_a_policy_bounds_cap_and_replicas_live_and_the_status_names_it(
    api: Api, steady: PoolHandle, policy: str
) -> None:
    def bounded() -> bool | str:
        fields = {bound["field"]: bound["policy"] for bound in steady.status().get("bounded", [])}
        return set(fields.values()) == {"e2e-live"} or str(fields)

    until("the pool bounded", bounded, seconds=10)
    steady.await_ready(1, seconds=60)
    until("the cap within the bound", lambda: max(caps(api, steady)) <= 3, seconds=10)
    api.merge(policy, {"spec": {"bounds": {"replicas": {"max": 2}}}})
    steady.await_ready(2, seconds=60)
    api.delete(policy)
    until("the bound gone", lambda: not steady.status().get("bounded"), seconds=10)
