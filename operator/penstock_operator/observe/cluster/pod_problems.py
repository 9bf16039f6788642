"""Pod problems: why a pod does not serve, as a reason and message from its status.

The scheduler's message, also for a missing PersistentVolumeClaim, is in the condition `PodScheduled`; a problem with an
image or a referenced ConfigMap or Secret is in a container's `waiting` state; a failed model load is in the termination
message, as `Reason: text` (docs/design/runtime.md#model-loading); an exceeded quota is in the Deployment's conditions.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock_operator.observed import PodProblem

Json = Mapping[str, Any]

HARMLESS = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of `waiting` during a healthy start."""
RETRYING = frozenset({"CrashLoopBackOff", "RunContainerError"})
"""Reasons of `waiting` that only state that the last run ended; its own status contains the cause."""
MESSAGE_LENGTH = 1024
_TERMINATION_MESSAGE = re.compile(r"^([A-Z][A-Za-z0-9]{2,62}): (.*)$", re.DOTALL)


def pod_problem(pod: Json) -> PodProblem | None:
    """Return the problem that keeps this pod (core/v1, raw) from serving, or None."""
    status: Json = pod.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return _unscheduled(status) or _failed_pod(status, statuses) or _first(statuses)


def _unscheduled(status: Json) -> PodProblem | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason = condition.get("reason") or "Unschedulable"
            return _problem(reason, condition.get("message") or "")
    return None


def _failed_pod(status: Json, statuses: list[Json]) -> PodProblem | None:
    """Return the problem of a failed pod: evicted, rejected by the kubelet, or past its deadline."""
    if status.get("phase") != "Failed":
        return None
    if status.get("reason"):
        return _problem(status["reason"], status.get("message") or "")
    return _first(statuses) or _problem("PodFailed", "the pod failed without a reason")


def _first(statuses: Iterable[Json]) -> PodProblem | None:
    problems = map(_container_problem, statuses)
    return next((problem for problem in problems if problem is not None), None)


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
        return None  # it serves: the end of its last run no longer matters
    return ended


def _ended(terminated: Json | None) -> PodProblem | None:
    """Return the problem of a container that exited with an error, from its own message or the kubelet's."""
    if not terminated or (terminated.get("exitCode") == 0 and not terminated.get("signal")):
        return None
    text = (terminated.get("message") or "").strip()
    match = _TERMINATION_MESSAGE.match(text)
    if match:
        return _problem(match[1], match[2])
    reason = terminated.get("reason") or "Error"
    code = f"the container exited with code {terminated.get('exitCode')}"
    return _problem(reason, f"{code}: {_last_line(text)}" if text else code)


def _last_line(text: str) -> str:
    return text.splitlines()[-1]


def _problem(reason: str, message: str) -> PodProblem:
    return PodProblem(reason=reason, message=" ".join(message.split())[:MESSAGE_LENGTH])
