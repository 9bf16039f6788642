"""Shared pytest fixtures (kubeconfig, kubectl, namespace) and the scheduling of cluster tests under xdist."""

import asyncio
import gc
import os
import socket
import stat
import subprocess
import uuid
from asyncio.selector_events import (  # type: ignore[attr-defined]  # the transport is private
    BaseSelectorEventLoop,
    _SelectorTransport,
)
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
"""Fixtures that require a cluster."""
CLUSTER_FOLDERS = ("tests/integration/", "tests/e2e/")
WITHOUT_CLUSTER = next(
    tuple(line.split()[2:])
    for line in (Path(__file__).parents[1] / "Makefile").read_text().splitlines()
    if line.startswith("WITHOUT_CLUSTER := ")
)
"""Those of these folders whose tests use no cluster."""
ACCEPT_ROUNDS = 3
"""Rounds of a loop in which a connection that its listener has accepted becomes a transport."""


class FileScheduling(LoadScopeScheduling):
    """Schedules by file; cluster tests share one worker, because one operator acts on every pool of the cluster.

    End-to-end tests expect that operator. Those that leave it as it is run side by side, if the others are not selected.
    """

    def _split_scope(self, nodeid: str) -> str:
        shares_worker = uses_shared_cluster(nodeid) and not _leaves_the_operator(self.config)
        return "cluster" if shares_worker else nodeid.partition("::")[0]


def _leaves_the_operator(config: pytest.Config) -> bool:
    """Return whether all selected tests are end-to-end tests that leave the operator as it is."""
    only_e2e = all(argument.startswith("tests/e2e") for argument in config.args)
    return only_e2e and "not alone" in config.option.markexpr


def uses_shared_cluster(nodeid: str) -> bool:
    """Return whether a test runs on the shared cluster."""
    return nodeid.startswith(CLUSTER_FOLDERS) and not nodeid.startswith(WITHOUT_CLUSTER)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Return the scheduler that keeps cluster tests on one worker."""
    return FileScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _transports_end_with_their_loop() -> Iterator[None]:
    """Abort the transports of each loop that closes: one that still flushes would fail the test that runs when it is collected."""
    init, close = BaseSelectorEventLoop.__init__, BaseSelectorEventLoop.close
    init_transport = _SelectorTransport.__init__

    def hold_transports(loop: BaseSelectorEventLoop, *selector: Any) -> None:
        init(loop, *selector)
        loop._transports = {}  # type: ignore[attr-defined]  # asyncio's is weak: one that is not read could go first

    def close_all(loop: BaseSelectorEventLoop) -> None:
        if not loop.is_closed() and not loop.is_running():
            _stop_accepting(loop)
            _end_connections(loop)
        close(loop)

    def init_or_close(transport: Any, loop: Any, sock: socket.socket, *more: Any) -> None:
        try:
            init_transport(transport, loop, sock, *more)
        except AssertionError:  # the server closed after it had accepted this client
            sock.close()
            transport._sock = None
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_SelectorTransport, "__init__", init_or_close)
        patch.setattr(BaseSelectorEventLoop, "__init__", hold_transports)
        patch.setattr(BaseSelectorEventLoop, "close", close_all)
        yield


def _end_connections(loop: BaseSelectorEventLoop) -> None:
    """Abort transports and cancel tasks until none is left: one that ends, or that accepts, may make another."""
    cancelled: set[asyncio.Task[Any]] = set()
    for round_ in range(100):
        transports = [each for each in loop._transports.values() if each._sock]  # type: ignore[attr-defined]
        tasks = asyncio.all_tasks(loop) if round_ >= ACCEPT_ROUNDS else cancelled
        if round_ > ACCEPT_ROUNDS and not transports and not tasks:
            return
        for transport in transports:
            transport.abort()
        for task in tasks - cancelled:
            task.cancel()
        cancelled |= tasks
        loop.run_until_complete(asyncio.sleep(0))


def _stop_accepting(loop: BaseSelectorEventLoop) -> None:
    """Take the listening sockets from a loop: a client that connects while the loop closes would be accepted."""
    for fd in list(loop._selector.get_map()):  # type: ignore[attr-defined]
        with suppress(OSError):  # closed meanwhile
            if stat.S_ISSOCK(os.fstat(fd).st_mode) and _listens(fd):
                loop.remove_reader(fd)


def _listens(fd: int) -> bool:
    with socket.socket(fileno=os.dup(fd)) as copy:
        return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


@pytest.fixture(scope="session")
def _cluster() -> Places:
    """The places of a running cluster; this fixture does not start one."""
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
    """A function that runs kubectl with arguments and optional stdin; it returns stdout and raises with stderr."""
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
    """A new namespace with restricted pod security, as in production; deleted afterwards."""
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
    """Check for the cluster before any other fixture, and begin with the tests that take longest.

    Tests with an installed operator come last: it acts on every pool of the cluster until the session ends, so in a random
    order it would also act on the pools of tests that take the operator's role themselves. The cluster's tests come first,
    because one worker runs all of them, and then those that start processes; short ones then fill all workers to the end.
    """
    for item in items:
        if not isinstance(item, pytest.Function) or not uses_shared_cluster(item.nodeid):
            continue
        if CLUSTER_FIXTURES & set(item.fixturenames):
            item.fixturenames.insert(0, "_cluster")
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """Exempt what the imports made from garbage collections, each of which would stop the process for 0.5 to 2 s."""
    gc.collect()
    gc.freeze()


def _turn(item: pytest.Item) -> int:
    """Return the place of a test among the others; equal ones keep their random order."""
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    if uses_shared_cluster(item.nodeid):
        return 3 if "operator" in fixtures else 0
    return 1 if item.nodeid.startswith("tests/integration/") else 2
