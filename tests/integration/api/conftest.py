"""Fixtures: the real API server with this checkout's CRDs, and a namespace."""

from collections.abc import Iterator

import pytest

from tests.support.kube import namespaces
from tests.support.kube.api import Api
from tests.support.kube.install import install_crds
from tests.support.kube.target import Target

NAMESPACE = "penstock-test-api"


@pytest.fixture(scope="session")
def target() -> Target:
    return Target.from_env()


@pytest.fixture(scope="session")
def installed(target: Target, empty_stage: None) -> None:
    """The CRDs of this checkout, served."""
    install_crds(target.api())


@pytest.fixture(scope="session")
def namespace(target: Target, installed: None) -> Iterator[str]:
    """A new namespace, whose objects are deleted at the end, including pods that use GPUs."""
    with namespaces.namespace(target.api(), NAMESPACE) as name:
        yield name


@pytest.fixture(scope="session")
def api(target: Target, installed: None) -> Api:
    return target.api()
