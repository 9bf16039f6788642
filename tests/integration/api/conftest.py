"""The real API server with this checkout's CRDs, and a namespace of these tests' own."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.api import Api
from tests.kube.target import Target

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "penstock-test-api"


@pytest.fixture(scope="session")
def target() -> Target:
    return Target.from_env()


@pytest.fixture(scope="session")
def installed(target: Target, empty_stage: None) -> None:
    """The CRDs of this checkout, established."""
    target.kubectl("apply", "--server-side", "--force-conflicts", "-f", ROOT / "crds")
    target.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", ROOT / "crds")


@pytest.fixture(scope="session")
def namespace(target: Target, installed: None) -> Iterator[str]:
    """A namespace that is gone again at the end; it is made on each use, so no run meets another's."""
    name = f"{NAMESPACE}-{time.time_ns() % 10**9}"
    target.kubectl("create", "namespace", name)
    yield name
    target.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def api(target: Target, installed: None) -> Api:
    return target.api()
