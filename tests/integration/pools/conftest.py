"""Fixtures: an operator process against the real API server, a namespace and a pool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kube import namespaces
from tests.support.kube.api import Api
from tests.support.kube.install import install_crds
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle
from tests.support.kube.target import Target


@pytest.fixture(scope="session")
def target() -> Target:
    return Target.from_env()


@pytest.fixture(scope="session")
def api(target: Target, empty_stage: None) -> Api:
    client = target.api()
    install_crds(client)
    return client


@pytest.fixture(scope="session")
def system_namespace(api: Api) -> Iterator[str]:
    with namespaces.namespace(api, "pools-system") as name:
        yield name


@pytest.fixture(scope="session")
def operator(
    kubeconfig: Path,
    api: Api,
    system_namespace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OperatorProcess]:
    assert api.list("/api/v1/nodes")
    process = OperatorProcess(kubeconfig, system_namespace, tmp_path_factory.mktemp("operator"))
    process.start()
    yield process
    if process.running:
        process.stop()


@pytest.fixture
def namespace(api: Api, operator: OperatorProcess) -> Iterator[str]:
    assert operator.running
    with namespaces.namespace(api, "pools") as name:
        yield name


@pytest.fixture
def pool(api: Api, namespace: str) -> PoolHandle:
    return PoolHandle(api, namespace, "chat")
