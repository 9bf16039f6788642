"""From a file or a factory to answers: real torch, in the engine's own place."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from penstock_api.types.model import ModelSpec
from penstock_runtime.models.load import load
from penstock_runtime.request import Completed, End, Failed, Request, Tensor
from tests.unit.runtime.engine.dynamic.builders import limits
from tests.unit.runtime.engine.link.conftest import Connect
from tests.unit.runtime.models.programs import Affine, batch, export


def a_call(name: str, tensor: str, x: Tensor) -> Request:
    group = ((tensor, "FP32", x.shape[1:]),)
    return Request(name, {tensor: x}, x.shape[0], group, time.monotonic())


def output(end: End, name: str) -> list[object]:
    assert isinstance(end, Completed), end
    values: list[object] = end.outputs[name].tolist()
    return values


async def test_a_program_on_a_claim_answers_requests(connect: Connect, tmp_path: Path) -> None:
    export(tmp_path / "m.pt2", Affine(), torch.ones(3, 4), dynamic={"x": {0: batch(16)}})
    claim = {"claimName": "models", "path": "m.pt2"}
    spec = ModelSpec.model_validate(
        {"source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}}
    )
    client = await connect(partial(load, spec, "served", tmp_path), limits(cap=64))
    assert client.settled[0].report.batch_cap_bound <= 16
    client.submit(*(a_call(str(n), "x", np.full((2, 4), n, np.float32)) for n in range(20)))
    ends = await client.ends_of(*(str(n) for n in range(20)))
    assert [output(end, "output") for end in ends] == [[[2.0 * n + 1] * 4] * 2 for n in range(20)]


async def test_a_device_that_shrinks_while_serving_lowers_the_bound_and_loses_no_request(
    connect: Connect,
) -> None:
    module = {"factory": "tests.unit.runtime.models.programs:shrinking"}
    spec = ModelSpec.model_validate({"source": {"type": "Module", "module": module}})
    client = await connect(partial(load, spec, "served"), limits(cap=16))
    client.submit(*(a_call(str(n), "INPUT", np.full((1, 4), n, np.float32)) for n in range(16)))
    ends = await client.ends_of(*(str(n) for n in range(16)))
    assert [output(end, "OUTPUT") for end in ends] == [[[3.0 * n] * 4] for n in range(16)]
    assert client.settled[-1].report.batch_cap_bound == 2
    assert (
        sum(settled.batch.out_of_memory_splits for settled in client.settled if settled.batch) == 3
    )


async def test_a_shape_that_the_program_rejects_fails_alone(
    connect: Connect, tmp_path: Path
) -> None:
    dynamic = {"x": {0: batch(), 1: torch.export.Dim("length", max=8)}}
    export(tmp_path / "m.pt2", Affine(), torch.ones(3, 4), dynamic=dynamic)
    claim = {"claimName": "models", "path": "m.pt2"}
    spec = ModelSpec.model_validate(
        {"source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}}
    )
    client = await connect(partial(load, spec, "served", tmp_path), limits())
    client.submit(a_call("long", "x", np.ones((1, 9), np.float32)))
    client.submit(a_call("short", "x", np.ones((1, 2), np.float32)))
    long, short = await client.ends_of("long", "short")
    assert isinstance(long, Failed)
    assert output(short, "output") == [[3.0, 3.0]]
