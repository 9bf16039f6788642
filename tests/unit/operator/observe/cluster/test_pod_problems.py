"""Statuses of pods as kubelets and schedulers write them, and what they say to a user."""

from typing import Any

import pytest

from penstock_operator.observe.cluster.pod_problems import pod_problem
from penstock_operator.observed import PodProblem

Json = dict[str, Any]


def container(**state: Any) -> Json:
    return {"status": {"phase": "Running", "containerStatuses": [{"name": "runtime", **state}]}}


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    said = {"reason": reason, **({"message": message} if message else {})}
    return container(state={"waiting": said}, **more)


def terminated(code: int, **more: Any) -> Json:
    return {"terminated": {"exitCode": code, **more}}


def test_a_missing_claim_shows_in_the_schedulers_words() -> None:
    message = '0/1 nodes are available: persistentvolumeclaim "weights" not found.'
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    pod: Json = {"status": {"phase": "Pending", "conditions": [said]}}

    assert pod_problem(pod) == PodProblem("Unschedulable", message)


def test_gates_hold_a_pod_back_in_their_own_words() -> None:
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "gated",
    }
    assert pod_problem({"status": {"conditions": [said]}}) == PodProblem("SchedulingGated", "gated")


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_an_image_that_cannot_be_had_is_told(reason: str) -> None:
    message = 'Back-off pulling image "registry.example/none:1"'
    assert pod_problem(waiting(reason, message)) == PodProblem(reason, message)


def test_a_missing_secret_of_the_environment_is_told() -> None:
    said = pod_problem(waiting("CreateContainerConfigError", 'secret "hf" not found'))
    assert said == PodProblem("CreateContainerConfigError", 'secret "hf" not found')


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_healthy_start_is_no_problem(reason: str) -> None:
    assert pod_problem(waiting(reason)) is None


def test_a_pod_that_nobody_has_looked_at_yet_has_no_problem() -> None:
    assert pod_problem({"metadata": {}, "spec": {}}) is None


def test_a_model_that_does_not_load_is_told_in_the_runtimes_words() -> None:
    ended = terminated(1, reason="Error", message="ModelLoadFailed: weights.pt2 is not a program\n")
    pod = waiting("CrashLoopBackOff", "back-off 10s restarting failed container", lastState=ended)

    assert pod_problem(pod) == PodProblem("ModelLoadFailed", "weights.pt2 is not a program")


def test_the_first_crash_is_told_before_the_back_off_begins() -> None:
    pod = container(state=terminated(1, reason="Error", message="ModelLoadFailed: no such factory"))
    assert pod_problem(pod) == PodProblem("ModelLoadFailed", "no such factory")


def test_a_container_that_starts_over_keeps_its_problem_until_it_is_ready() -> None:
    ended = terminated(1, reason="Error", message="ModelLoadFailed: no such factory")
    running = {"running": {"startedAt": "2026-11-21T10:00:00Z"}}
    again = container(state=running, lastState=ended, ready=False, restartCount=3)
    healed = container(state=running, lastState=ended, ready=True, restartCount=3)

    assert pod_problem(again) == PodProblem("ModelLoadFailed", "no such factory")
    assert pod_problem(healed) is None


def test_a_container_killed_for_memory_says_so() -> None:
    pod = waiting("CrashLoopBackOff", lastState=terminated(137, reason="OOMKilled"))
    assert pod_problem(pod) == PodProblem("OOMKilled", "the container ended with code 137")


def test_words_without_a_reason_are_quoted_by_their_last_line() -> None:
    said = "Traceback (most recent call last):\n  ...\nValueError: bad"
    pod = waiting("CrashLoopBackOff", lastState=terminated(1, reason="Error", message=said))

    assert pod_problem(pod) == PodProblem(
        "Error", "the container ended with code 1: ValueError: bad"
    )


def test_a_run_that_ended_well_is_no_problem() -> None:
    assert pod_problem(container(state=terminated(0, reason="Completed"))) is None


def test_an_init_container_comes_before_the_runtime() -> None:
    pod = waiting("PodInitializing")
    pod["status"]["initContainerStatuses"] = [
        {"name": "fetch", "state": terminated(2, reason="Error", message="disk full")}
    ]
    assert pod_problem(pod) == PodProblem("Error", "the container ended with code 2: disk full")


def test_an_evicted_pod_says_why() -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    assert pod_problem({"status": status}) == PodProblem("Evicted", "The node was low on memory.")


def test_long_words_are_cut_and_made_one_line() -> None:
    said = pod_problem(waiting("CreateContainerError", "a\n" * 3000))
    assert said is not None
    assert len(said.message) <= 1024
    assert "\n" not in said.message
