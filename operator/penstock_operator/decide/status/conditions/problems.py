"""Problems of pods as condition reasons, each with a remedy."""

import re
from collections.abc import Iterable

from penstock_operator.observed import PodObject, PodProblem

IMAGE = "ImagePullFailed"
VOLUME = "VolumeNotFound"

_REASONS = {
    "ErrImagePull": IMAGE,
    "ImagePullBackOff": IMAGE,
    "ErrImageNeverPull": IMAGE,
    "InvalidImageName": IMAGE,
    "ImageInspectError": IMAGE,
    "RegistryUnavailable": IMAGE,
    "FailedMount": VOLUME,
    "FailedAttachVolume": VOLUME,
    "CreateContainerConfigError": "ContainerConfigError",
    "CreateContainerError": "ContainerConfigError",
    "RunContainerError": "ContainerConfigError",
}

_REMEDIES = {
    IMAGE: "check spec.runtime.image, and spec.template.imagePullSecrets for a private registry",
    VOLUME: "create the volume, or name an existing one in spec.model.source or spec.template.volumes",
    "ModelLoadFailed": "fix spec.model, or the model itself; the pods retry",
    "CertificateUnusable": "store a certificate and its key in PEM in the Secret of spec.tls; the pods retry",
    "ApiKeysUnusable": "store a JSON object with `keys` in the Secret of spec.apiKeys; the pods retry",
    "ModelAccessDenied": "give the pods credentials with read access; they retry",
    "ModelNotFound": "correct spec.model.source, or upload the model there; the pods retry",
    "ModelSourceUnreachable": "check the network and the source; files that were downloaded stay in the cache",
    "ModelCorrupt": "upload the model again if the next attempt fails too",
    "CacheFull": "use a larger cache in spec.model.source, or free space in it",
    "Unschedulable": "free or add a node with the resources of spec.accelerator and spec.template;"
    " the pods start once there is room",
    "OOMKilled": "raise spec.template.container.resources.limits.memory, or lower spec.batching.size.max",
    "ContainerConfigError": "create the object that spec.template.container.env references, or correct the reference",
    "CrashLoopBackOff": "see `kubectl logs --previous` of the pod",
}

_URGENCY = (
    "ModelAccessDenied", "ModelNotFound", "CacheFull", "ModelCorrupt", "ModelSourceUnreachable",
    "ModelLoadFailed", "CertificateUnusable", "ApiKeysUnusable", "OOMKilled", IMAGE, VOLUME,
    "ContainerConfigError", "Unschedulable",
)  # fmt: skip
"""Order in which problems are reported: those of the spec before those of the cluster."""

_CAMEL = re.compile(r"^[A-Z][A-Za-z0-9]{0,127}$")


def reason(problem: PodProblem) -> str:
    """Return the condition's reason for a pod's problem."""
    if problem.reason == "Unschedulable" and "persistentvolumeclaim" in problem.message.lower():
        return VOLUME
    known = _REASONS.get(problem.reason, problem.reason)
    return known if _CAMEL.match(known) else "PodFailed"


def worst(pods: Iterable[PodObject]) -> tuple[PodObject, PodProblem] | None:
    """Return the pod whose problem is reported; None without a problem."""
    failing = [(pod, pod.problem) for pod in pods if pod.problem is not None and not pod.ready]
    return min(failing, key=_urgency, default=None)


def _urgency(failing: tuple[PodObject, PodProblem]) -> tuple[int, float, str]:
    pod, problem = failing
    name = reason(problem)
    rank = _URGENCY.index(name) if name in _URGENCY else len(_URGENCY)
    return rank, pod.created, pod.name


def sentence(pod: PodObject, problem: PodProblem) -> str:
    """Return the problem of a pod and its remedy."""
    text = problem.message.strip().rstrip(".") or problem.reason
    remedy = _REMEDIES.get(reason(problem), "see `kubectl describe` of the pod")
    return f"pod {pod.name}: {text}: {remedy}"
