"""Fixtures: `python -m penstock_runtime` as a process on loopback, with the emulated accelerator."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime.process import RuntimeProcess, start

Launch = Callable[..., RuntimeProcess]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """`start` in a new folder; the process is killed at the end of the test."""
    running: list[RuntimeProcess] = []

    def begin(*arguments: Any, **more: Any) -> RuntimeProcess:
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(start(folder, *arguments, **more))
        return running[-1]

    yield begin
    for process in running:
        process.kill()


QUICK = {"a_milliseconds": "20", "c_milliseconds": "1"}


@pytest.fixture
def runtime(launch: Launch) -> RuntimeProcess:
    """A ready pod with 20 + 1 * rows milliseconds a batch."""
    pod = launch(QUICK)
    pod.ready()
    return pod


@pytest.fixture(scope="module")
def shared_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    """The same pod, shared by tests that do not change it."""
    pod = start(tmp_path_factory.mktemp("runtime"), QUICK)
    pod.ready()
    yield pod
    pod.kill()
