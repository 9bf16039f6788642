"""Why a pod is not serving, read from its own status in Kubernetes' own words.

What shows where: the scheduler's message (also a missing PersistentVolumeClaim) in the condition
`PodScheduled`; an image or a referenced ConfigMap or Secret in a container's `waiting`; a model that
will not load in the termination message, as `Reason: text` (docs/design/runtime.md#model-loading); a quota in the Deployment.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock_operator.observed import PodProblem

Json = Mapping[str, Any]

HARMLESS = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of `waiting` that a healthy start goes through."""
RETRYING = frozenset({"CrashLoopBackOff", "RunContainerError"})
"""Reasons of `waiting` that only repeat that the last run ended; the run itself says why."""
MESSAGE_LENGTH = 1024
_SAID = re.compile(r"^([A-Z][A-Za-z0-9]{2,62}): (.*)$", re.DOTALL)


def pod_problem(pod: Json) -> PodProblem | None:
    """Return what keeps this pod (core/v1, raw) from serving, or None."""
    status: Json = pod.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return _unscheduled(status) or _failed_pod(status, statuses) or _first(statuses)


def _unscheduled(status: Json) -> PodProblem | None:
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _problem(one.get("reason") or "Unschedulable", one.get("message") or "")
    return None


def _failed_pod(status: Json, statuses: list[Json]) -> PodProblem | None:
    """A whole pod that failed: evicted, refused by the kubelet, or at its deadline."""
    if status.get("phase") != "Failed":
        return None
    if status.get("reason"):
        return _problem(status["reason"], status.get("message") or "")
    return _first(statuses) or _problem("PodFailed", "the pod failed and says no reason")


def _first(statuses: Iterable[Json]) -> PodProblem | None:
    found = (_container_problem(one) for one in statuses)
    return next((one for one in found if one is not None), None)


def _container_problem(status: Json) -> PodProblem | None:
    state: Json = status.get("state") or {}
    waiting: Json = state.get("waiting") or {}
    ended = _ended(state.get("terminated")) or _ended(
        (status.get("lastState") or {}).get("terminated")
    )
    reason = waiting.get("reason") or ""
    if reason in RETRYING:
        return ended or _problem(reason, waiting.get("message") or "")
    if reason not in HARMLESS:
        return _problem(reason, waiting.get("message") or "")
    if status.get("ready"):
        return None  # it serves: what ended its last run is over
    return ended


def _ended(terminated: Json | None) -> PodProblem | None:
    """What a container that ended with an error said, or what the kubelet says of it."""
    if not terminated or (terminated.get("exitCode") == 0 and not terminated.get("signal")):
        return None
    said = (terminated.get("message") or "").strip()
    match = _SAID.match(said)
    if match:
        return _problem(match[1], match[2])
    reason = terminated.get("reason") or "Error"
    code = f"the container ended with code {terminated.get('exitCode')}"
    return _problem(reason, f"{code}: {_last_line(said)}" if said else code)


def _last_line(text: str) -> str:
    return text.splitlines()[-1]


def _problem(reason: str, message: str) -> PodProblem:
    return PodProblem(reason=reason, message=" ".join(message.split())[:MESSAGE_LENGTH])
