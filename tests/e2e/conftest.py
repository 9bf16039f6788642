"""Fixtures of the end-to-end tests: an installed operator, Prometheus, and pools in separate namespaces."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.first_and_last import first_and_last
from tests.support.kube import groups, install, namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.install import Images
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, emulated
from tests.support.kube.target import Target

HERE = Path(__file__).parent
MakePool = Callable[..., PoolHandle]


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that need access to the node."""
    for line in (
        "own_cluster: needs the project's own node (its GPUs, its files, its packet filter)",
        "alone: stops, changes or cuts off the operator, so no other test may run meanwhile",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder and set their timeouts; with KUBE_CONTEXT, deselect those that need the project's node."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600 if item.get_closest_marker("long") else 300))
    if Target.from_env().foreign:
        deselected = [item for item in ours if item.get_closest_marker("own_cluster")]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


FIGURE = "figure"
Figure = Callable[[str], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """A function that records a measured figure for the summary of the run."""
    return partial(record_property, FIGURE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the measured figures."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    figures = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == FIGURE
    ]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(str(line))


@pytest.fixture(scope="session")
def target() -> Target:
    return Target.from_env()


@pytest.fixture(scope="session")
def api(target: Target) -> Api:
    return target.api()


@pytest.fixture(scope="session")
def images() -> Images:
    return Images.of_checkout()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture(scope="session")
def prometheus(target: Target, api: Api, images: Images) -> None:
    install.install_prometheus(target, api, images)


@pytest.fixture(scope="session")
def operator(
    target: Target, api: Api, images: Images, prometheus: None, run_folder: Path
) -> Iterator[InstalledOperator]:
    """The operator of this checkout, installed once by its chart and uninstalled at the end."""

    def begin() -> None:
        install.clear_stage(target, api)
        install.install_operator(target, images)

    with first_and_last(run_folder, begin, lambda: install.uninstall_operator(target)):
        yield InstalledOperator(target, api)


@pytest.fixture(scope="session")
def leader_worker_sets(target: Target, api: Api, run_folder: Path) -> Iterator[None]:
    """LeaderWorkerSets, whose controller is installed once and removed at the end; a user's cluster has its own or none."""
    if target.foreign:
        if not groups.served(api):
            pytest.skip(f"the cluster of {target.context} serves no leaderworkersets")
        yield
        return
    folder = run_folder / "groups"
    folder.mkdir(exist_ok=True)
    with first_and_last(
        folder, partial(groups.install, target, api), partial(groups.uninstall, target)
    ):
        yield


@pytest.fixture(scope="session")
def shared_namespace(api: Api) -> Iterator[str]:
    yield from _namespace(api)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    yield from _namespace(api)


def _namespace(api: Api) -> Iterator[str]:
    with namespaces.namespace(api, "e2e") as name:
        yield name
    namespaces.await_no_pods(api, name)


@pytest.fixture
def no_crash_loop(operator: InstalledOperator) -> Iterator[None]:
    """No pod of the operator restarts during the test; earlier tests may have killed it."""
    before = operator.restarts()
    yield
    assert {
        pod: count for pod, count in operator.restarts().items() if count > before.get(pod, 0)
    } == {}


@pytest.fixture
def make_pool(operator: InstalledOperator, api: Api, namespace: str) -> MakePool:
    """A function that applies a pool of the emulated accelerator in the test's namespace."""

    def make(name: str = "pool", *, a: int = 40, c: int = 5, **spec: Any) -> PoolHandle:
        pool = PoolHandle(api, namespace, name)
        pool.apply(emulated(a, c, drain={"deadlineSeconds": 20}, **spec))
        return pool

    return make


STEADY: Object = {"replicas": 2, "drain": {"deadlineSeconds": 20}}


@pytest.fixture(scope="session")
def shared_pool(operator: InstalledOperator, api: Api, shared_namespace: str) -> PoolHandle:
    pool = PoolHandle(api, shared_namespace, "steady")
    pool.apply(emulated(**STEADY))
    return pool


@pytest.fixture
def steady(shared_pool: PoolHandle) -> PoolHandle:
    """A pool of two ready replicas in mode Manual, reset to its first spec."""
    shared_pool.apply(emulated(**STEADY))
    shared_pool.await_condition("Progressing", "False", "Settled", seconds=90)
    shared_pool.await_ready(2)
    shared_pool.await_none_terminating()
    return shared_pool
