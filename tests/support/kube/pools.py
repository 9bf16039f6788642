"""A handle to an InferencePool for tests and the demo: apply, edit, wait for conditions, reach its Service."""

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.kube.api import POOLS, Api, ApiError, Object

UNOBSERVED = {"observedGeneration": -1}
"""Status of an object that no operator has observed."""
ROUTED_SECONDS = 10.0
LABEL_POOL_UID = "penstock.dev/pool-uid"
DEPLOYMENTS = "/apis/apps/v1"


class WaitTimeoutError(AssertionError):
    """A wait timed out; the message contains the last state of the probe."""


def until(what: str, probe: Callable[[], Any], *, seconds: float = 60, every: float = 0.2) -> float:
    """Poll until `probe` returns a true value; return the seconds that it took.

    A probe may return a string that describes the present state: only a true value that is not a string ends
    the wait.
    """
    started = time.monotonic()
    while True:
        seen = probe()
        took = time.monotonic() - started
        if seen and not isinstance(seen, str):
            return took
        if took > seconds:
            raise WaitTimeoutError(f"{what}: not within {seconds:.0f} s; last seen: {seen!r}")
        time.sleep(every)


def emulated(a: int = 40, c: int = 5, *, accelerators: int = 0, **spec: Any) -> Object:
    """Return the spec of a pool that serves the emulated accelerator: a batch of b rows takes a + c*b ms."""
    arguments = {"a_milliseconds": str(a), "c_milliseconds": str(c)}
    factory = "penstock_runtime.models.emulated:create"
    source = {"type": "Module", "module": {"factory": factory, "arguments": arguments}}
    accelerator = {"resourceName": "nvidia.com/gpu", "count": accelerators}
    return {"model": {"source": source}, "accelerator": accelerator, **spec}


@dataclass(frozen=True, slots=True)
class PoolHandle:
    """A pool by namespace and name; nothing is cached."""

    api: Api
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the REST path."""
        return f"{POOLS}/namespaces/{self.namespace}/inferencepools/{self.name}"

    @property
    def children(self) -> dict[str, str]:
        """Return the REST paths of the children by kind."""
        core, child = f"/api/v1/namespaces/{self.namespace}", f"{self.name}-penstock"
        return {
            "Service": f"{core}/services/{self.name}",
            "Deployment": f"{DEPLOYMENTS}/namespaces/{self.namespace}/deployments/{child}",
            "ConfigMap": f"{core}/configmaps/{child}",
            "ServiceAccount": f"{core}/serviceaccounts/{child}",
            "PodDisruptionBudget": (
                f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{child}"
            ),
        }

    def apply(self, spec: Mapping[str, Any]) -> Object:
        """Create the pool, or replace its whole spec, including fields that the new one lacks."""
        manifest: Object = {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "InferencePool",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": dict(spec),
        }
        while (existing := self.api.get(self.path)) is not None:
            try:
                replaced = {**manifest, "metadata": existing["metadata"]}
                return self.api.request("PUT", self.path, replaced)
            except ApiError as error:
                if error.status != 409:  # the operator wrote its status in between
                    raise
        return self.api.create(manifest)

    def edit(self, spec: Mapping[str, Any]) -> Object:
        """Merge-patch the spec, as a user's live edit does."""
        return self.api.merge(self.path, {"spec": dict(spec)})

    def delete(self) -> None:
        """Delete the pool; its children follow by their owner references."""
        self.api.delete(self.path)

    def get(self) -> Object:
        """Return the object; raises where there is none."""
        return self.api.request("GET", self.path)

    def status(self) -> Object:
        """Return the status, `UNOBSERVED` before the first visit."""
        status: Object = self.get().get("status", {})
        return status

    def condition(self, kind: str) -> Object:
        """Return one condition, empty where it is absent."""
        return condition_of(self.get(), kind)

    def has_condition(self, kind: str, status: str, reason: str | None = None) -> bool | str:
        """Return True if a condition has this status for the newest generation, else a string with its present state."""
        pool = self.get()
        condition = condition_of(pool, kind)
        current = condition.get("observedGeneration", 0) >= pool["metadata"]["generation"]
        if current and condition["status"] == status and reason in (None, condition["reason"]):
            return True
        return f"{kind}={condition.get('status')}/{condition.get('reason')}: {condition.get('message')}"

    def await_condition(
        self, kind: str, status: str = "True", reason: str | None = None, *, seconds: float = 60
    ) -> float:
        """Wait for a condition and return the seconds it took."""
        what = f"{self.name}: {kind}={status}/{reason or 'any'}"
        return until(what, lambda: self.has_condition(kind, status, reason), seconds=seconds)

    def await_ready(self, replicas: int, *, seconds: float = 90) -> float:
        """Wait until exactly `replicas` pods exist, all are Ready, and the pool's status reports them."""

        def probe() -> bool | str:
            pods = self.pods()
            ready = sum(map(is_ready, pods))
            if len(pods) == ready == replicas and self.status().get("readyReplicas") == replicas:
                return self.has_condition("Ready", "True")
            return f"{ready} ready of {len(pods)} pods; {self.has_condition('Ready', 'True')}"

        return until(f"{self.name}: {replicas} replicas ready", probe, seconds=seconds)

    def await_zero(self, *, seconds: float = 60) -> float:
        """Wait until the operator reports that the pool's zero replicas are what its spec says."""
        return self.await_condition("Ready", "False", "ScaledToZero", seconds=seconds)

    def await_acknowledged(self, after: int = 0, *, seconds: float = 30) -> float:
        """Wait until every ready pod acknowledged the newest limits, of a generation above `after`."""

        def probe() -> bool | str:
            status = self.status()
            batch = status.get("batch", {})
            done = batch.get("generation", 0) > after
            done = done and batch.get("acknowledgedPods") == status.get("readyReplicas")
            if done:
                return self.has_condition("LimitsApplied", "True")
            return (
                f"expected a generation above {after}; {status.get('readyReplicas')} ready: {batch}"
            )

        return until(f"{self.name}: limits acknowledged", probe, seconds=seconds, every=0.1)

    def await_none_terminating(self, *, seconds: float = 90) -> float:
        """Wait until the terminating pods are gone: while they drain, a Service may still route to them."""

        def probe() -> bool | str:
            leaving = [pod["metadata"]["name"] for pod in self._all_pods() if is_terminating(pod)]
            return not leaving or ", ".join(leaving)

        return until(f"{self.name}: no terminating pods", probe, seconds=seconds)

    def pods(self) -> list[Object]:
        """Return the pool's pods without the terminating ones."""
        return [pod for pod in self._all_pods() if not is_terminating(pod)]

    def _all_pods(self) -> list[Object]:
        uid = self.get()["metadata"]["uid"]
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={LABEL_POOL_UID}%3D{uid}"
        return self.api.list(path)

    def pod_names(self) -> set[str]:
        """Return the names of the pods that are not terminating."""
        return {pod["metadata"]["name"] for pod in self.pods()}

    def url(self) -> str:
        """Return the Service's address inside the cluster, which kube-proxy also routes from the node.

        kube-proxy learns of Ready pods a moment after the pool's status, so this waits until a connection is accepted.
        """
        service = self.api.request("GET", self.children["Service"])["spec"]
        host, port = service["clusterIP"], service["ports"][0]["port"]
        deadline = time.monotonic() + ROUTED_SECONDS
        while not _accepts(host, port) and time.monotonic() < deadline:
            time.sleep(0.1)
        return f"http://{host}:{port}"


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def condition_of(pool: Mapping[str, Any], kind: str) -> Object:
    """Return one condition of an object, empty where it is absent."""
    conditions: list[Object] = pool.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is Ready."""
    return condition_of(pod, "Ready").get("status") == "True"
