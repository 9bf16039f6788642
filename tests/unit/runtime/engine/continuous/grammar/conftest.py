"""One pod for all tests of grammars; its engine is in a thread, its grammars in processes."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.unit.runtime.protocols.openai.served import Served, save_tiny_model


@pytest.fixture(scope="session")
def grammar_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return folder


@pytest.fixture(scope="module", params=[0, 1], ids=["depth 0", "depth 1"])
def pod(grammar_folder: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    served = Served(grammar_folder, depth=request.param)
    yield served
    served.close()


@pytest.fixture
def http(pod: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=pod.url, timeout=120) as client:
        yield client
