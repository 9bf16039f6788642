"""Fixtures of all integration tests on the real API server."""

import pytest

from tests.support.kube import install
from tests.support.kube.target import Target


@pytest.fixture(scope="session")
def empty_stage(_cluster: object) -> None:
    """Remove other operators: one left by a demo or an interrupted run would act on the tests' pools."""
    target = Target.from_env()
    install.clear_stage(target, target.api())
