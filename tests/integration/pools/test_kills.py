"""Kills of the operator at random times while many pools change lead to the same final objects as no kills."""

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
"""A changed message alone is written 10 s after the last write at the next tick, which an idle pool has every 30 s."""
LIFE_SECONDS = 1.5
"""Range of the random time between becoming leader and the kill; the operator catches up within it."""


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
    """Make the same changes with and without kills of the operator, and compare all objects."""
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
            release_lease(api, operator)
            mark = len(operator.log())
            operator.start()
            until("it leads", partial(leads_since, operator, mark), seconds=40, every=0.02)
            changes[-1]()
            time.sleep(dice.uniform(0, LIFE_SECONDS))
        killed = end_state(api, there)

    assert killed.keys() == undisturbed.keys()
    assert differences(killed, undisturbed) == []


class KillRun:
    """The pools of a run in one namespace."""

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


def release_lease(api: Api, operator: OperatorProcess) -> None:
    """Release the Lease of a killed process instead of waiting 15 s for its expiry."""
    api.merge(LEASE.format(operator.namespace), {"spec": {"holderIdentity": ""}})


def leads_since(operator: OperatorProcess, mark: int) -> bool:
    return ": leading" in operator.log()[mark:]


def end_state(api: Api, stage: KillRun) -> dict[str, dict[str, object]]:
    """Return all objects once none was written for `QUIET_SECONDS`."""
    created = [*stage.pools, *(pool for pool in stage.late if api.get(pool.path))]
    until("every status describes the newest spec", partial(settled, created), seconds=60)
    quiet_since, known_versions = time.monotonic(), versions(api, stage.namespace)

    def quiet() -> bool:
        nonlocal quiet_since, known_versions
        now = versions(api, stage.namespace)
        if now != known_versions:
            quiet_since, known_versions = time.monotonic(), now
        return time.monotonic() - quiet_since > QUIET_SECONDS

    until("no object is written", quiet, seconds=240, every=1)
    return snapshot(api, stage.namespace)
