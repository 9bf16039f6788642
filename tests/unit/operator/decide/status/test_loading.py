"""Progress of model loading in the conditions of a pool."""

from dataclasses import replace

import pytest

from penstock_api.pod_contract import Loading, LoadStage
from penstock_operator.decide.status.conditions.loading import progress
from penstock_operator.observed import Acknowledgement, PodProblem
from tests.unit.operator.decide.world import World, message, pool, reason, settled

GIGABYTE = 10**9


def loading(stage: LoadStage, loaded: float = 0, total: float = 0) -> Acknowledgement:
    progress = Loading(
        stage=stage, loaded_bytes=int(loaded * GIGABYTE), total_bytes=int(total * GIGABYTE)
    )
    return Acknowledgement(None, None, "503", progress)


def starting(*answers: Acknowledgement) -> World:
    world = settled(pool=pool(replicas=len(answers)))
    world.pods = tuple(replace(pod, ready=False) for pod in world.pods)
    world.acknowledgements = dict(zip((pod.uid for pod in world.pods), answers, strict=True))
    return world


def test_the_bytes_and_percent_of_a_load_are_in_the_condition() -> None:
    plan = starting(loading(LoadStage.FETCHING, 3.14, 14.2)).run()
    assert reason(plan, "Ready") == "False/ModelLoading"
    assert "downloading the model: 3.1 of 14.2 GB, 22 %" in message(plan, "Ready")
    assert "3.1 of 14.2 GB, 22 %" in message(plan, "Progressing")


def test_the_pod_furthest_in_loading_is_reported_and_the_others_are_counted() -> None:
    world = starting(
        loading(LoadStage.WAITING, 1, 10), loading(LoadStage.FETCHING, 7, 10), loading(LoadStage.FETCHING)
    )  # fmt: skip
    said = message(world.run(), "Ready")
    assert world.pods[1].name in said
    assert "7.0 of 10.0 GB, 70 %; 2 more pods are loading" in said


def test_a_pod_that_waits_for_a_shared_download_is_reported() -> None:
    said = message(starting(loading(LoadStage.WAITING, 1, 10)).run(), "Ready")
    assert "10 %; another pod downloads into the shared cache" in said


def test_a_downloaded_model_is_being_loaded_onto_its_device() -> None:
    assert "loading it onto its device" in message(
        starting(loading(LoadStage.STARTING)).run(), "Ready"
    )


def test_a_failed_pod_is_reported_before_loading_pods() -> None:
    world = starting(loading(LoadStage.FETCHING, 1, 10), loading(LoadStage.FETCHING, 1, 10))
    failed = PodProblem("CacheFull", "9 GB are still to come and the cache has 1 GB free")
    world.pods = (world.pods[0], replace(world.pods[1], problem=failed))
    plan = world.run()
    assert reason(plan, "Ready") == "False/CacheFull"
    assert "use a larger cache in spec.model.source" in message(plan, "Ready")


@pytest.mark.parametrize(
    "failure",
    ["ModelAccessDenied", "ModelNotFound", "CacheFull", "ModelCorrupt", "ModelSourceUnreachable"],
)
def test_every_reason_of_a_failed_download_is_a_reason_of_the_pool(failure: str) -> None:
    world = starting(loading(LoadStage.FETCHING))
    world.pods = (replace(world.pods[0], problem=PodProblem(failure, "with details")),)
    plan = world.run()
    assert reason(plan, "Ready") == f"False/{failure}"
    assert "see `kubectl describe`" not in message(plan, "Ready"), "the reason has its own remedy"


@pytest.mark.parametrize(
    ("loaded", "total", "text"),
    [
        (0, 2_000, "0.0 of 2.0 kB, 0 %"),
        (512, 700, "512 of 700 bytes, 73 %"),
        (1_999_999, 2_000_000, "2.0 of 2.0 MB, 99 %"),
        (7, 5, "5 of 5 bytes, 100 %"),
    ],
)
def test_progress_is_never_rounded_up_to_complete(loaded: int, total: int, text: str) -> None:
    assert (
        progress(Loading(stage=LoadStage.FETCHING, loaded_bytes=loaded, total_bytes=total)) == text
    )
