"""The operator killed at any moment while many pools change: the same end as if it had never been."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from signal import SIGKILL

import pytest

from tests.support.kube import namespaces
from tests.support.kube.api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.script import Script, first_spec
from tests.support.kube.snapshot import differences, settled, snapshot, versions

pytestmark = pytest.mark.integration

POOLS, LATE = 20, 4
SEED = 7
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/penstock-operator"
QUIET_SECONDS = 45.0
"""Words that changed alone are rewritten 10 s after the last write, at the next tick, which of an idle pool comes every 30 s."""
LIFE_SECONDS = 1.5
"""A process is killed at a random moment of so long after it began to lead: it catches up by then."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_five_kills_during_changes_of_twenty_pools_leave_no_trace(
    api: Api, operator: OperatorProcess
) -> None:
    assert_no_trace(api, operator, kills=5)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_two_hundred_kills_during_changes_of_twenty_pools_leave_no_trace(
    api: Api, operator: OperatorProcess
) -> None:
    assert_no_trace(api, operator, kills=200)


def assert_no_trace(api: Api, operator: OperatorProcess, kills: int) -> None:
    """Make the same changes under an operator that lives and under one that is killed, and compare all objects."""
    with twenty(api) as (here, there):
        for script in (here, there):
            until("the pools begin settled", partial(settled, script.pools), seconds=90)
        for changes in Script(*parts(here), SEED, kills).changes():
            for change in changes:
                change()
        undisturbed = end_state(api, here)

        dice = random.Random(SEED)  # noqa: S311 - repeatable, not secret
        for changes in Script(*parts(there), SEED, kills).changes():
            changes[0]()
            operator.stop(SIGKILL)
            for change in changes[1:-1]:
                change()
            give_back(api, operator)
            mark = len(operator.log())
            operator.start()
            until("it leads", partial(leads_since, operator, mark), seconds=40, every=0.02)
            changes[-1]()
            time.sleep(dice.uniform(0, LIFE_SECONDS))
        killed = end_state(api, there)

    assert killed.keys() == undisturbed.keys()
    assert differences(killed, undisturbed) == []


class KillRun:
    """The pools of one run."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace = namespace
        self.pools = [PoolHandle(api, namespace, f"pool-{number:02}") for number in range(POOLS)]
        self.late = [
            PoolHandle(api, namespace, f"pool-{POOLS + number:02}") for number in range(LATE)
        ]


def parts(stage: KillRun) -> tuple[Sequence[PoolHandle], Sequence[PoolHandle]]:
    return stage.pools, stage.late


@contextmanager
def twenty(api: Api) -> Iterator[tuple[KillRun, KillRun]]:
    with namespaces.namespace(api, "alive") as here, namespaces.namespace(api, "killed") as there:
        stages = KillRun(api, here), KillRun(api, there)
        for stage in stages:
            for pool in stage.pools:
                pool.apply(first_spec())
        yield stages


def give_back(api: Api, operator: OperatorProcess) -> None:
    """Free the Lease of a process that is dead, as its 15 s would: they are not what is tried here."""
    api.merge(LEASE.format(operator.namespace), {"spec": {"holderIdentity": ""}})


def leads_since(operator: OperatorProcess, mark: int) -> bool:
    return "leading by" in operator.log()[mark:]


def end_state(api: Api, stage: KillRun) -> dict[str, dict[str, object]]:
    """Return all objects once nobody has written for a while."""
    made = [*stage.pools, *(one for one in stage.late if api.get(one.path))]
    until("every pool is about its newest spec", partial(settled, made), seconds=60)
    quiet_since, held = time.monotonic(), versions(api, stage.namespace)

    def quiet() -> bool:
        nonlocal quiet_since, held
        now = versions(api, stage.namespace)
        if now != held:
            quiet_since, held = time.monotonic(), now
        return time.monotonic() - quiet_since > QUIET_SECONDS

    until("nobody writes", quiet, seconds=240, every=1)
    return snapshot(api, stage.namespace)
