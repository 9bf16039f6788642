"""Why pods do not serve, from Kubernetes' words to a condition's reason with a remedy."""

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
    "ModelLoadFailed": "correct spec.model, or the model itself; the pods try again by themselves",
    "CertificateUnusable": "put a certificate and its key in PEM into the Secret that spec.tls names; the pods"
    " try again by themselves",
    "ModelAccessDenied": "give the pods credentials that may read it; they try again by themselves",
    "ModelNotFound": "correct spec.model.source, or put the model there; the pods try again by themselves",
    "ModelSourceUnreachable": "check the network and the source; what was fetched is kept in the cache",
    "ModelCorrupt": "upload the model again if the next try fails too",
    "CacheFull": "use a larger cache in spec.model.source, or make room in it",
    "Unschedulable": "free or add a node with what spec.accelerator and spec.template ask for;"
    " the pods start by themselves when there is room",
    "OOMKilled": "raise spec.template.container.resources.limits.memory, or lower spec.batching.size.max",
    "ContainerConfigError": "create what spec.template.container.env refers to, or correct the reference",
    "CrashLoopBackOff": "see `kubectl logs --previous` of the pod",
}

_URGENCY = (
    "ModelAccessDenied", "ModelNotFound", "CacheFull", "ModelCorrupt", "ModelSourceUnreachable",
    "ModelLoadFailed", "CertificateUnusable", "OOMKilled", IMAGE, VOLUME, "ContainerConfigError", "Unschedulable",
)  # fmt: skip
"""Which problem is told first where pods have several: the author's own, then the cluster's."""

_CAMEL = re.compile(r"^[A-Z][A-Za-z0-9]{0,127}$")


def reason(problem: PodProblem) -> str:
    """Return the condition's reason for a pod's problem."""
    if problem.reason == "Unschedulable" and "persistentvolumeclaim" in problem.message.lower():
        return VOLUME
    known = _REASONS.get(problem.reason, problem.reason)
    return known if _CAMEL.match(known) else "PodFailed"


def worst(pods: Iterable[PodObject]) -> tuple[PodObject, PodProblem] | None:
    """Return the pod whose problem is told, or None where no pod has one."""
    failing = [(pod, pod.problem) for pod in pods if pod.problem is not None and not pod.ready]
    return min(failing, key=lambda one: (_rank(one[1]), one[0].created, one[0].name), default=None)


def _rank(problem: PodProblem) -> int:
    named = reason(problem)
    return _URGENCY.index(named) if named in _URGENCY else len(_URGENCY)


def sentence(pod: PodObject, problem: PodProblem) -> str:
    """Return what is wrong with a pod, and what to do about it."""
    told = problem.message.strip().rstrip(".") or problem.reason
    remedy = _REMEDIES.get(reason(problem), "see `kubectl describe` of the pod")
    return f"pod {pod.name}: {told}: {remedy}"
