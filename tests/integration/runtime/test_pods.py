"""A model whose ranks are divided over two pods answers as one process does; both pods end when a part is lost."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.integration.runtime.test_generation_placements import complete, generating
from tests.integration.runtime.test_placements import gone
from tests.integration.runtime.test_ranks import answers, unready
from tests.support.runtime.process import children, engines
from tests.unit.runtime.protocols.openai.served import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(model_folder)
    return model_folder


class Pods(NamedTuple):
    """A group of two pods."""

    leader: Any
    worker: Any

    async def ready(self) -> None:
        for pod in self:
            await asyncio.to_thread(pod.ready)

    def processes(self) -> list[int]:
        return [child for pod in self for child in children(pod.process.pid)]

    async def ended(self) -> list[int]:
        return [await asyncio.to_thread(pod.stopped) for pod in self]

    def words(self) -> list[str]:
        return [(pod.folder / "termination-log").read_text() for pod in self]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def member(launch: Any, folder: Path, index: int, port: int, **more: str) -> Any:
    """Start one pod of a group of two; float64, in which the order of a sum changes no token."""
    ours = {
        "LWS_LEADER_ADDRESS": "127.0.0.1",
        "LWS_GROUP_SIZE": "2",
        "LWS_WORKER_INDEX": str(index),
        "PENSTOCK_RENDEZVOUS_PORT": str(port),
        "PENSTOCK_POD_NAME": f"chat-0-{index}",
        "PENSTOCK_TENSOR_PARALLEL": "2",
        "PENSTOCK_ACCEPT_SECONDS": "0.1",
    }
    return generating(launch, folder, dtype="float64", **(ours | more))


def pods(launch: Any, folder: Path, **more: str) -> Pods:
    port = free_port()
    return Pods(*(member(launch, folder, index, port, **more) for index in (0, 1)))


SPLITS = {"tensor": (2, 1), "pipeline": (1, 2), "both": (2, 2)}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("split", SPLITS)
async def test_two_pods_answer_as_one_process_does_and_end_with_sigterm(
    launch: Any, folder: Path, expected: dict[str, Any], split: str
) -> None:
    if not expected:
        alone = generating(launch, folder, dtype="float64")
        await asyncio.to_thread(alone.ready)
        expected["answers"] = await answers(alone)
        alone.kill()
    tensor, stages = SPLITS[split]
    group = pods(
        launch,
        folder,
        PENSTOCK_TENSOR_PARALLEL=str(tensor),
        PENSTOCK_PIPELINE_PARALLEL=str(stages),
    )
    await group.ready()
    started = group.processes()
    assert [len(engines(pod.process.pid)) for pod in group] == [tensor * stages // 2] * 2
    assert await answers(group.leader) == expected["answers"]
    stopped_first = group.worker if split == "both" else group.leader
    stopped_first.process.send_signal(signal.SIGTERM)
    assert await group.ended() == [0, 0]
    assert group.words() == ["", ""]
    await gone(started)


async def test_a_worker_serves_its_health_only(launch: Any, folder: Path) -> None:
    group = pods(launch, folder)
    await group.ready()
    status, text = await asyncio.to_thread(group.worker.get, "/healthz")
    assert (status, text) == (200, "ok: its ranks follow\n")
    assert (await asyncio.to_thread(group.worker.get, "/control/v1/state"))[0] == 404
    group.leader.process.kill()
    assert await asyncio.to_thread(group.worker.stopped) == 1
    assert group.words()[1].startswith("EngineDied: the leader, pod 0 (127.0.0.1): ")


def rank_1(group: Pods) -> int:
    (rank,) = engines(group.worker.process.pid)
    return rank


def worker_pod(group: Pods) -> int:
    return int(group.worker.process.pid)


@pytest.mark.parametrize(
    ("part", "fault", "says"),
    [
        pytest.param(
            rank_1,
            signal.SIGKILL,
            r"rank 1 of 2 on pod 1 \(chat-0-1\): its process was killed by SIGKILL",
            id="rank killed",
        ),
        pytest.param(
            rank_1,
            signal.SIGSTOP,
            r"rank 1 of 2 on pod 1 \(chat-0-1\): it hangs: no sign of life",
            id="rank frozen",
        ),
        pytest.param(
            worker_pod,
            signal.SIGKILL,
            r"pod 1 \(chat-0-1\): (it has closed its connection: its process ended|its connection broke: )",
            id="pod killed",
        ),
        pytest.param(
            worker_pod,
            signal.SIGSTOP,
            r"pod 1 \(chat-0-1\): it hangs or cannot be reached: no sign of life",
            id="pod frozen",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_lost_part_of_the_worker_ends_both_pods_with_its_words(
    launch: Any, folder: Path, part: Callable[[Pods], int], fault: signal.Signals, says: str
) -> None:
    group = pods(launch, folder)
    await group.ready()
    started = [*engines(group.leader.process.pid), *engines(group.worker.process.pid)]
    lost = part(group)
    os.kill(lost, fault)
    await unready(group.leader)
    assert await asyncio.to_thread(group.leader.stopped) == 1
    leader_words, _ = group.words()
    assert leader_words.startswith("EngineDied: ")
    assert re.search(says, leader_words)
    if part is rank_1:
        assert await asyncio.to_thread(group.worker.stopped) == 1
        assert "rank 1 of 2 on pod 1 (chat-0-1): " in group.words()[1]
    elif fault is signal.SIGSTOP:
        os.kill(lost, signal.SIGCONT)
        assert await asyncio.to_thread(group.worker.stopped) == 1
    await gone(started)


async def test_pods_with_other_settings_are_refused_with_both_values(
    launch: Any, folder: Path
) -> None:
    port = free_port()
    group = Pods(
        member(launch, folder, 0, port, PENSTOCK_MAX_MODEL_LEN="64"),
        member(launch, folder, 1, port, PENSTOCK_MAX_MODEL_LEN="32"),
    )
    assert await group.ended() == [1, 1]
    for words in group.words():
        assert words.startswith("ModelLoadFailed: ")
        assert words.endswith(
            "PENSTOCK_MAX_MODEL_LEN differs within the group: 64 on the leader, 32 on pod 1 (chat-0-1)"
        )


async def test_a_worker_waits_for_its_leader_and_says_so(launch: Any, folder: Path) -> None:
    port = free_port()
    worker = member(launch, folder, 1, port)
    says = f"it waits for the leader at 127.0.0.1:{port}: nothing listens there yet"
    await asyncio.to_thread(worker.wait_for_log, says)
    assert worker.get("/readyz") == (503, f"Loading: {says}\n")
    assert worker.get("/healthz") == (200, f"ok: {says}\n")
    group = Pods(member(launch, folder, 0, port), worker)
    await group.ready()
    async with aiohttp.ClientSession() as session:
        assert (await complete(group.leader, session))["choices"]
    for pod in group:
        pod.process.send_signal(signal.SIGTERM)
    assert await group.ended() == [0, 0]


async def test_a_worker_that_waits_ends_with_sigterm(launch: Any, folder: Path) -> None:
    port, name = free_port(), "no-such-leader.invalid"
    worker = member(launch, folder, 1, port, LWS_LEADER_ADDRESS=name)
    says = f"it waits for the leader at {name}:{port}: its name does not resolve yet"
    await asyncio.to_thread(worker.wait_for_log, says)
    worker.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.stopped) == 0


async def test_a_taken_port_is_reported(launch: Any, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        leader = member(launch, folder, 0, port)
        assert await asyncio.to_thread(leader.stopped) == 1
    words = (leader.folder / "termination-log").read_text()
    assert f"port {port}, at which the pods of the group meet, cannot be opened" in words
