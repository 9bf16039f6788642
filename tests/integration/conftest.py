"""What the tests on the real API server begin with."""

import pytest

from tests.support.kube import install
from tests.support.kube.target import Target


@pytest.fixture(scope="session")
def empty_stage(_cluster: object) -> None:
    """No operator but ours: what a demo, or a run cut short, left would act on our pools too."""
    target = Target.from_env()
    install.clear_stage(target, target.api())
