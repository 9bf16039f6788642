"""REST paths, waits, metrics text and the target cluster of the test support."""

from pathlib import Path

import pytest

from tests.support.kube.api import path_of
from tests.support.kube.pods import parse
from tests.support.kube.pools import WaitTimeoutError, emulated, until
from tests.support.kube.target import Target


def manifest(version: str, kind: str) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Service", "/api/v1/namespaces/ns/services/x"),
        ("v1", "Namespace", "/api/v1/namespaces/x"),
        ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/ns/deployments/x"),
        (
            "penstock.dev/v1alpha1",
            "InferencePolicy",
            "/apis/penstock.dev/v1alpha1/inferencepolicies/x",
        ),
    ],
)
def test_a_manifest_has_a_rest_path(version: str, kind: str, path: str) -> None:
    assert path_of(manifest(version, kind)) == path


def test_samples_of_a_metric_are_summed_over_its_labels() -> None:
    text = '# HELP a b\na{x="1"} 2\na{x="2"} 3.5\nb_total 1e3\n'
    assert parse(text) == {"a": 5.5, "b_total": 1000.0}


def test_a_wait_ends_with_the_first_true_value_and_returns_the_seconds() -> None:
    answers = iter([False, "not yet", True])
    assert until("so", lambda: next(answers), seconds=5, every=0.01) < 5


def test_a_wait_that_times_out_reports_the_last_state() -> None:
    with pytest.raises(WaitTimeoutError, match=r"ready: not within 0 s; last seen: '1 of 2'"):
        until("ready", lambda: "1 of 2", seconds=0)


def test_an_emulated_pool_has_its_service_curve_as_strings() -> None:
    spec = emulated(50, 20, accelerators=1, replicas=2)
    assert spec["replicas"] == 2
    assert spec["accelerator"] == {"resourceName": "nvidia.com/gpu", "count": 1}
    arguments = spec["model"]["source"]["module"]["arguments"]
    assert arguments == {"a_milliseconds": "50", "c_milliseconds": "20"}


def test_kube_context_takes_precedence_over_the_test_cluster() -> None:
    own = Target.from_env({"PENSTOCK_CACHE": "/cache"})
    assert (own.kubeconfig, own.foreign) == ("/cache/cluster/admin.kubeconfig", False)
    theirs = Target("/k", "theirs", Path("/none"))
    assert theirs.foreign
    assert (
        Target.from_env({"PENSTOCK_CACHE": "/cache", "KUBE_CONTEXT": "theirs"}).kubeconfig is None
    )
    assert "--context" in theirs.kubectl_command()
