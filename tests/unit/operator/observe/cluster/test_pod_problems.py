"""Pod problems from the statuses that kubelets and schedulers write."""

from typing import Any

import pytest

from penstock_operator.observe.cluster.pod_problems import pod_problem
from penstock_operator.observed import PodProblem

Json = dict[str, Any]


def container(**state: Any) -> Json:
    return {"status": {"phase": "Running", "containerStatuses": [{"name": "runtime", **state}]}}


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    state = {"reason": reason, **({"message": message} if message else {})}
    return container(state={"waiting": state}, **more)


def terminated(code: int, **more: Any) -> Json:
    return {"terminated": {"exitCode": code, **more}}


def test_a_missing_claim_is_reported_with_the_schedulers_message() -> None:
    message = '0/1 nodes are available: persistentvolumeclaim "weights" not found.'
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    pod: Json = {"status": {"phase": "Pending", "conditions": [condition]}}

    assert pod_problem(pod) == PodProblem("Unschedulable", message)


def test_a_scheduling_gate_is_reported() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "gated",
    }
    assert pod_problem({"status": {"conditions": [condition]}}) == PodProblem(
        "SchedulingGated", "gated"
    )


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_reported(reason: str) -> None:
    message = 'Back-off pulling image "registry.example/none:1"'
    assert pod_problem(waiting(reason, message)) == PodProblem(reason, message)


def test_a_missing_secret_is_reported() -> None:
    problem = pod_problem(waiting("CreateContainerConfigError", 'secret "hf" not found'))
    assert problem == PodProblem("CreateContainerConfigError", 'secret "hf" not found')


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_healthy_start_is_no_problem(reason: str) -> None:
    assert pod_problem(waiting(reason)) is None


def test_a_pod_without_status_has_no_problem() -> None:
    assert pod_problem({"metadata": {}, "spec": {}}) is None


def test_a_failed_model_load_is_reported_with_the_runtimes_message() -> None:
    ended = terminated(1, reason="Error", message="ModelLoadFailed: weights.pt2 is not a program\n")
    pod = waiting("CrashLoopBackOff", "back-off 10s restarting failed container", lastState=ended)

    assert pod_problem(pod) == PodProblem("ModelLoadFailed", "weights.pt2 is not a program")


def test_the_first_crash_is_reported_before_the_back_off() -> None:
    pod = container(state=terminated(1, reason="Error", message="ModelLoadFailed: no such factory"))
    assert pod_problem(pod) == PodProblem("ModelLoadFailed", "no such factory")


def test_a_restarted_container_keeps_its_problem_until_it_is_ready() -> None:
    ended = terminated(1, reason="Error", message="ModelLoadFailed: no such factory")
    running = {"running": {"startedAt": "2026-11-21T10:00:00Z"}}
    again = container(state=running, lastState=ended, ready=False, restartCount=3)
    healed = container(state=running, lastState=ended, ready=True, restartCount=3)

    assert pod_problem(again) == PodProblem("ModelLoadFailed", "no such factory")
    assert pod_problem(healed) is None


def test_an_out_of_memory_kill_is_reported() -> None:
    pod = waiting("CrashLoopBackOff", lastState=terminated(137, reason="OOMKilled"))
    assert pod_problem(pod) == PodProblem("OOMKilled", "the container exited with code 137")


def test_a_message_without_a_reason_is_quoted_by_its_last_line() -> None:
    traceback = "Traceback (most recent call last):\n  ...\nValueError: bad"
    pod = waiting("CrashLoopBackOff", lastState=terminated(1, reason="Error", message=traceback))

    assert pod_problem(pod) == PodProblem(
        "Error", "the container exited with code 1: ValueError: bad"
    )


def test_a_run_that_ended_well_is_no_problem() -> None:
    assert pod_problem(container(state=terminated(0, reason="Completed"))) is None


def test_an_init_container_comes_before_the_runtime() -> None:
    pod = waiting("PodInitializing")
    pod["status"]["initContainerStatuses"] = [
        {"name": "fetch", "state": terminated(2, reason="Error", message="disk full")}
    ]
    assert pod_problem(pod) == PodProblem("Error", "the container exited with code 2: disk full")


def test_an_eviction_is_reported() -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    assert pod_problem({"status": status}) == PodProblem("Evicted", "The node was low on memory.")


def test_a_long_message_is_cut_and_put_on_one_line() -> None:
    problem = pod_problem(waiting("CreateContainerError", "a\n" * 3000))
    assert problem is not None
    assert len(problem.message) <= 1024
    assert "\n" not in problem.message
