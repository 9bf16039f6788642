"""Problems that no schema can detect become a condition within 10 seconds, until their cause is removed."""

import pytest

from tests.e2e.conftest import MakePool
from tests.support.kube.api import Api, Object
from tests.support.kube.install import Images
from tests.support.kube.nodes.devices import GPU, occupied_devices
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, condition_of, emulated, until

REPORTED_WITHIN_SECONDS = 10.0

pytestmark = pytest.mark.usefixtures("no_crash_loop")


def unschedulable(pod: Object) -> bool:
    """Return whether the scheduler reports a pod as unschedulable."""
    return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"


def waiting(pod: Object) -> str:
    """Return the waiting reason of the runtime container."""
    (container,) = pod["status"].get("containerStatuses") or [{}]
    reason: str = container.get("state", {}).get("waiting", {}).get("reason", "")
    return reason


def termination_message(pod: Object) -> str:
    """Return the termination message of the runtime container's last run."""
    (container,) = pod["status"].get("containerStatuses") or [{}]
    ended = [container.get(key, {}).get("terminated") for key in ("state", "lastState")]
    return next((run.get("message", "") for run in ended if run), "")


def test_a_model_that_fails_to_load_is_reported_until_an_edit(make_pool: MakePool) -> None:
    broken = {"factory": "no_such_package.module:create"}
    pool = make_pool(model={"source": {"type": "Module", "module": broken}})
    until(
        "the pod reports it",
        lambda: any("ModelLoadFailed" in termination_message(pod) for pod in pool.pods()),
    )
    pool.await_condition("Ready", "False", "ModelLoadFailed", seconds=REPORTED_WITHIN_SECONDS)
    assert "no_such_package" in pool.condition("Ready")["message"]
    pool.edit({"model": emulated()["model"]})
    pool.await_ready(1)


def test_an_image_that_cannot_be_pulled_is_reported_until_an_edit(make_pool: MakePool) -> None:
    absent = {"image": "localhost/penstock-absent:1", "imagePullPolicy": "Never"}
    pool = make_pool(runtime=absent)
    until("the kubelet reports it", lambda: any("Image" in waiting(pod) for pod in pool.pods()))
    pool.await_condition("Ready", "False", "ImagePullFailed", seconds=REPORTED_WITHIN_SECONDS)
    assert "penstock-absent" in pool.condition("Ready")["message"]
    pool.edit({"runtime": None})
    pool.await_ready(1)


@pytest.mark.own_cluster
def test_a_pool_without_a_free_gpu_reports_it_and_starts_when_one_is_released(
    api: Api, namespace: str, operator: InstalledOperator, images: Images
) -> None:
    greedy, late = PoolHandle(api, namespace, "greedy"), PoolHandle(api, namespace, "late")
    with occupied_devices(api, namespace, images.runtime, 7):
        greedy.apply(emulated(accelerators=1, drain={"deadlineSeconds": 5}))
        greedy.await_ready(1, seconds=150)
        late.apply(emulated(accelerators=1))
        until("the scheduler reports it", lambda: any(map(unschedulable, late.pods())))
        late.await_condition("Ready", "False", "Unschedulable", seconds=REPORTED_WITHIN_SECONDS)
        assert GPU in late.condition("Ready")["message"]
        (used,) = greedy.status()["accelerators"]
        assert used == {"resourceName": GPU, "used": 1}
        greedy.delete()
        late.await_ready(1)
