"""Pods of one pool, which know its address."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders import warm_up
from tests.unit.runtime.protocols.handover.cases import PoolAddress
from tests.unit.runtime.protocols.openai.served import LIMITS, Served, save_tiny_model

STEP = StepOptions(Compute.TORCH, DType.FLOAT64, cache_bytes=2**22)
"""The same ids on every pod."""


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return folder


@pytest.fixture
def pool() -> Iterator[PoolAddress]:
    address = PoolAddress()
    yield address
    address.close()


@pytest.fixture
def serve(
    model_folder: Path, pool: PoolAddress, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Served]]:
    """Start pods of the pool."""
    monkeypatch.setattr(warm_up, "MAX_SECONDS", 0.0)
    pods: list[Served] = []

    def start(folder: Path = model_folder, **config: Any) -> Served:
        limits = LIMITS.model_copy(update={"max_batch_size": 32, **config.pop("limits", {})})
        settings = {
            "peer_url": pool.url,
            "accept_seconds": 0.0,
            "deadline_seconds": 0.0,
            "step": STEP,
            **config,
        }
        pods.append(Served(folder, limits, **settings))
        return pods[-1]

    yield start
    for each in pods:
        each.close()
