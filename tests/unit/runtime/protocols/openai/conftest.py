"""Fixtures: one pod for tests that only send requests; tests that change or block a pod start their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from penstock_runtime.models.decoders import warm_up
from tests.unit.runtime.protocols.openai.served import LIMITS, Served, save_tiny_model

Serve = Callable[..., Served]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def served(model_folder: Path) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:  # every shape is timed, however busy the machine is
        patch.setattr(warm_up, "MAX_SECONDS", 60.0)
        shared = Served(model_folder)
    yield shared
    counters = shared.pod.counters
    shared.until(
        lambda: counters.received == counters.settled()
    )  # every request of any test has an end
    shared.close()


@pytest.fixture(params=[0, 1], ids=["depth 0", "depth 1"])
def serve(model_folder: Path, request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Start pods of the test's own."""
    pods: list[Served] = []

    def start(**config: Any) -> Served:
        limits = LIMITS.model_copy(update=config.pop("limits", {}))
        pods.append(Served(model_folder, limits, request.param, **config))
        return pods[-1]

    yield start
    for each in pods:
        each.close()


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as connected:
        yield connected


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    """Plain HTTP, for what no client library would send."""
    with httpx2.Client(base_url=served.url, timeout=30) as connected:
        yield connected
