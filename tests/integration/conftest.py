"""What may run side by side: one operator acts on every pool of the cluster, so its tests keep to one process."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.kube import install
from tests.kube.target import Target

BESIDE = frozenset({"runtime", "signals"})
"""Rooms that stand on no cluster: their files go to whichever process is free."""


class RoomScheduling(LoadScopeScheduling):
    """Keep the tests of the cluster in one process, in order."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if BESIDE & set(file.split("/")) else "cluster"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> RoomScheduling:
    """Deal the tests out by what they stand on, with `--numprocesses`."""
    return RoomScheduling(config, log)


@pytest.fixture(scope="session")
def empty_stage(_cluster: object) -> None:
    """No operator but ours: what a demo, or a run cut short, left would act on our pools too."""
    target = Target.from_env()
    install.clear_stage(target, target.api())
