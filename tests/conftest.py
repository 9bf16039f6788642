"""What every room of the tests shares: who runs beside whom, the cluster's kubeconfig, kubectl, a namespace."""

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.cluster import foreign, life
from tests.support.cluster.places import Places

settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

Kubectl = Callable[..., str]
CLUSTER_FIXTURES = frozenset({"kubeconfig", "target", "api", "operator"})
"""Whoever asks for one of these stands on a cluster."""
ROOMS_OF_THE_CLUSTER = ("tests/integration/", "tests/e2e/")
WITHOUT_CLUSTER = ("tests/integration/runtime/", "tests/integration/signals/")


class RoomScheduling(LoadScopeScheduling):
    """Deals out files, to `--numprocesses`; one operator acts on every pool of the cluster, so its tests keep to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if stands_on_the_cluster(nodeid) else nodeid.partition("::")[0]


def stands_on_the_cluster(nodeid: str) -> bool:
    """Return whether a test shares the one cluster with others."""
    return nodeid.startswith(ROOMS_OF_THE_CLUSTER) and not nodeid.startswith(WITHOUT_CLUSTER)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> RoomScheduling:
    """Deal the tests out by what they stand on."""
    return RoomScheduling(config, log)


@pytest.fixture(scope="session")
def _cluster() -> Places:
    """The places of a cluster that answers; nothing is brought up here."""
    places = Places.from_env()
    context = foreign.chosen_context()
    try:
        if context:
            foreign.check(places, context)
        else:
            life.require_up(places)
    except (life.NotUpError, foreign.ContextUnusableError) as error:
        pytest.exit(str(error), returncode=1)
    return places


@pytest.fixture(scope="session")
def kubeconfig(_cluster: Places) -> Path:
    """A kubeconfig whose current context is the cluster under test."""
    context = foreign.chosen_context()
    return foreign.kubeconfig(_cluster, context) if context else _cluster.kubeconfig


@pytest.fixture(scope="session")
def kubectl(_cluster: Places, kubeconfig: Path) -> Kubectl:
    """Run kubectl with arguments, and perhaps stdin; return its stdout, raise with its stderr."""
    own = _cluster.commands / "kubectl"
    program = str(own) if own.exists() else "kubectl"

    def run(*arguments: str, stdin: str | None = None) -> str:
        argv = [program, "--kubeconfig", str(kubeconfig), *arguments]
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    return run


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace of the test's own, restricted as production's are; deleted afterwards."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    kubectl(
        "label",
        "namespace",
        name,
        "pod-security.kubernetes.io/enforce=restricted",
        "penstock-tests=kubectl",
    )
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests without a cluster fail early, once, and with the remedy; put those with an operator last.

    An operator acts on every pool of the cluster until the session ends: in a random order it would act on the pools
    of tests that play the operator themselves.
    """
    for item in items:
        if isinstance(item, pytest.Function) and CLUSTER_FIXTURES & set(item.fixturenames):
            item.fixturenames.insert(0, "_cluster")
    items.sort(key=_has_an_operator)


def _has_an_operator(item: pytest.Item) -> bool:
    asked = item.fixturenames if isinstance(item, pytest.Function) else ()
    return stands_on_the_cluster(item.nodeid) and "operator" in asked
