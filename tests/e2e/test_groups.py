"""A pool whose replica has two pods: it answers as one rank does, loses a worker, rolls out, and drains to zero."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
import torch

from penstock_api import names
from tests.e2e.conftest import Figure
from tests.support.cluster.host import kernel
from tests.support.kube import groups, install, namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.install import Images
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pods import metrics, restarts
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.kube.volumes import node_volume
from tests.unit.runtime.protocols.handover.cases import CALLS, Call, answer_of
from tests.unit.runtime.protocols.openai.served import save_tiny_model

pytestmark = [pytest.mark.own_cluster, pytest.mark.alone, pytest.mark.timeout(540)]
INDEX = names.LABEL_WORKER_INDEX


@pytest.fixture(scope="module")
def grouping(
    operator: InstalledOperator, images: Images, leader_worker_sets: None
) -> Iterator[None]:
    """The operator with LeaderWorkerSets; the installation is restored afterwards."""
    operator.change("leaderWorkerSets.enabled=true")
    yield
    assert not any(operator.restarts().values())
    install.install_operator(operator.target, images)


@pytest.fixture
def model(api: Api, namespace: str) -> Iterator[None]:
    """A claim with a model; in float64 the order of a sum changes no token."""
    folder = Path("/var/tmp") / f"penstock-{namespace}"  # noqa: S108 - a name of the test's own
    save_tiny_model(folder / "tiny", 512, torch.float64)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with node_volume(api, folder, namespace, "models", mode="ReadOnlyMany") as claim:
        api.create(claim)
        yield
    shutil.rmtree(folder)


def spec(**more: object) -> Object:
    claim = {"claimName": "models", "path": "tiny"}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return {
        "model": {"name": "tiny", "task": "TextGeneration", "source": source},
        "accelerator": {"count": 0},
        "generation": {"computeBackend": "Torch"},
        "drain": {"deadlineSeconds": 20, "relaySeconds": 0},
        **more,
    }


class Group:
    """The pods of a pool by their index in the group."""

    def __init__(self, pool: PoolHandle) -> None:
        self.pool = pool

    def pods(self) -> dict[str, Object]:
        """Return the pods that are not terminating."""
        return {pod["metadata"]["labels"].get(INDEX, ""): pod for pod in self.pool.pods()}

    def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods().values()}

    def await_new(self, before: set[str], *, seconds: float = 180) -> float:
        """Wait until other pods than those `before` are Ready and the pool reports its replica."""

        def probe() -> bool | str:
            pods, status = self.pods(), self.pool.status()
            ready = len(pods) == 2 and all(map(is_ready, pods.values()))
            new = not before & self.uids()
            return (ready and new and status.get("readyReplicas") == 1) or (
                f"{self.pool.condition('Ready')}; {sorted(pods)}, new: {new}"
            )

        return until("a group of new pods is ready", probe, seconds=seconds)


def test_a_replica_of_two_pods_answers_heals_rolls_out_and_ends(
    api: Api, grouping: None, namespace: str, model: None, figure: Figure
) -> None:
    single = PoolHandle(api, namespace, "single")
    single.apply(spec())
    pool = PoolHandle(api, namespace, "pair")
    pool.apply(spec(parallelism={"tensor": 2, "nodes": 2}))
    group = Group(pool)
    began = group.await_new(set())
    assert pool.status()["replicas"] == 1
    single.await_ready(1, seconds=180)
    for call in (CALLS["greedy"], CALLS["seeded"]):
        answers = [asyncio.run(answer_of(each.url(), call)) for each in (single, pool)]
        assert answers[0] == answers[1]
    figure(f"a group of two pods: ready after {began:.0f} s, and two answers equal to one rank's")

    assert_that_a_lost_worker_ends_the_group(group, figure)
    before = group.uids()
    with answering(pool.url()) as seen:
        pool.edit({"template": {"labels": {"version": "2"}}})
        edited = time.monotonic()
        group.await_new(before)
        versions = {pod["metadata"]["labels"]["version"] for pod in group.pods().values()}
        assert versions == {"2"}
        pool.await_condition("Progressing", "False", "Settled", seconds=120)
        rolled = time.monotonic() - edited
        url = pool.url()
        longest = Thread(target=lambda: seen.ask(url, LONG))
        longest.start()
        until("the long answer has begun", lambda: running(api, group) > 0, seconds=20)
    pool.edit({"replicas": 0})
    longest.join(60)
    pool.await_zero(seconds=120)
    assert seen.faults == []
    figure(
        f"a group: {seen.answered} answers through a rollout of {rolled:.0f} s and the drain to zero, none lost"
    )
    until("both pods end", lambda: not pool.pods() or str(sorted(group.pods())), seconds=60)
    assert api.get(groups.path(namespace, "pair-penstock")) is not None
    pool.delete()
    single.delete()
    namespaces.await_no_pods(api, namespace)


LONG: Call = (CALLS["greedy"][0], {**CALLS["greedy"][1], "max_tokens": 400})
"""An answer that is not complete when its pod gets SIGTERM."""


@dataclass(slots=True)
class Answers:
    """Answers that one client received."""

    answered: int = 0
    faults: list[str] = field(default_factory=list)

    def ask(self, url: str, call: Call) -> None:
        try:
            body = asyncio.run(answer_of(url, call))
        except Exception as error:  # noqa: BLE001 - whatever the client saw
            self.faults.append(repr(error))
        else:
            if b"[DONE]" in body:
                self.answered += 1
            else:
                self.faults.append(body.decode()[-200:])


@contextmanager
def answering(url: str) -> Iterator[Answers]:
    """Send one request after the other inside the context."""
    seen, leaving = Answers(), Event()

    def work() -> None:
        while not leaving.is_set():
            seen.ask(url, CALLS["greedy"])

    thread = Thread(target=work)
    thread.start()
    try:
        yield seen
    finally:
        leaving.set()
        thread.join(60)


def running(api: Api, group: Group) -> float:
    """Return the sequences that the leader computes."""
    return metrics(api, group.pods()["0"])["penstock_requests_running"]


def assert_that_a_lost_worker_ends_the_group(group: Group, figure: Figure) -> None:
    """Kill the processes of the worker: the leader is not ready within 10 s, says why, and both pods start again."""
    before, pods = group.uids(), group.pods()
    killed = time.monotonic()
    for pid in kernel.pod_processes(pods["1"]["metadata"]["uid"]):
        kernel.kill(pid)

    until("the leader is not ready", lambda: not is_ready(group.pods()["0"]), seconds=10)
    gone = time.monotonic() - killed

    def restarted() -> bool | str:
        now = group.pods()
        again = all(restarts(pod) and is_ready(pod) for pod in now.values())
        ready = group.pool.status().get("readyReplicas") == 1
        return (again and ready) or str(group.pool.condition("Ready"))

    until("both pods serve again", restarted, seconds=180)
    assert group.uids() == before
    ended = group.pods()["0"]["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert "pod 1 (pair-penstock-0-1)" in ended["message"]
    figure(
        f"a group whose worker was killed: not ready after {gone:.1f} s,"
        f" serving again after {time.monotonic() - killed:.0f} s"
    )
