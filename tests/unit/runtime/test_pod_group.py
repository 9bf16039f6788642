"""Which pod of a group a runtime is, from the variables of a LeaderWorkerSet."""

from pathlib import Path

import pytest

from penstock_api.types.model import ModelSpec
from penstock_runtime.config.pod_group import check_group, pod_group
from penstock_runtime.engine.placement import PodSeat, RankSeat
from penstock_runtime.errors import ConfigError

WORKER = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "chat-0.chat.team"}


def model(task: str) -> ModelSpec:
    source = {"type": "HuggingFace", "huggingFace": {"repository": "owner/tiny"}}
    return ModelSpec.model_validate({"name": "tiny", "task": task, "source": source})


def test_a_worker_knows_its_leader() -> None:
    assert PodSeat(**pod_group(WORKER)) == PodSeat(1, 2, "chat-0.chat.team")


@pytest.mark.parametrize("environ", [{}, {"LWS_GROUP_SIZE": "1", "LWS_WORKER_INDEX": "7"}])
def test_a_pod_by_itself_is_in_no_group(environ: dict[str, str]) -> None:
    assert pod_group(environ) == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"LWS_GROUP_SIZE": "0"}, "LWS_GROUP_SIZE='0'"),
        ({"LWS_GROUP_SIZE": "65"}, "from 1 to 64"),
        ({"LWS_GROUP_SIZE": "two"}, "LWS_GROUP_SIZE='two'"),
        ({"LWS_WORKER_INDEX": "2"}, "from 0 to 1"),
        ({"LWS_WORKER_INDEX": "²"}, "LWS_WORKER_INDEX='²'"),
        ({"LWS_WORKER_INDEX": ""}, "LWS_WORKER_INDEX=''"),
        ({"LWS_LEADER_ADDRESS": ""}, "LWS_LEADER_ADDRESS is not set"),
    ],
)
def test_odd_variables_are_refused_by_name(change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        pod_group({**WORKER, **change})


@pytest.mark.parametrize(("ranks", "pods"), [(3, 2), (1, 2), (4, 3)])
def test_pods_that_do_not_divide_the_ranks_are_refused_with_the_numbers(
    ranks: int, pods: int
) -> None:
    with pytest.raises(ConfigError, match=rf"{ranks} ranks .* {pods} pods"):
        check_group(PodSeat(0, pods, "leader"), model("TextGeneration"), ranks)


def test_only_models_that_generate_text_are_divided_over_pods() -> None:
    embedder = model("Embedding")
    with pytest.raises(ConfigError, match="generate text"):
        check_group(PodSeat(0, 2, "leader"), embedder, 2)
    check_group(PodSeat(), embedder, 1)


@pytest.mark.parametrize(("tensor", "stages", "pods"), [(2, 1, 2), (2, 2, 2), (4, 2, 4), (1, 4, 1)])
def test_each_rank_is_on_one_pod_and_has_a_device_of_its_own_there(
    tensor: int, stages: int, pods: int, tmp_path: Path
) -> None:
    ranks = tensor * stages
    seats = [RankSeat(rank, tensor, stages, tmp_path, pods) for rank in range(ranks)]
    for pod in range(pods):
        here = PodSeat(pod, pods, "leader").ranks_here(ranks)
        assert [seat.rank for seat in seats if seat.pod == pod] == list(here)
        assert [seats[rank].device for rank in here] == list(range(ranks // pods))
