"""Builders of requests, models and a fake clock for tests of the dynamic engine."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_runtime.engine.dynamic.batch_former import Batch, NothingWaits, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.messages import Settled, Submit
from penstock_runtime.engine.model import ModelInfo, OutOfMemory, TensorSpec
from penstock_runtime.request import Completed, End, Request, Tensor

FEATURES = 2
POISON = 13.0
"""A row of this value makes `Doubling` raise."""


def a_request(
    id: str,
    *,
    rows: int = 1,
    arrived: float = 0.0,
    deadline: float | None = None,
    priority: int = 0,
    tenant: str = "",
    shape: str = "x",
    value: float = 1.0,
) -> Request:
    """Return a request of `rows` rows of `value`; `shape` names its group."""
    inputs: dict[str, Tensor] = {"x": np.full((rows, FEATURES), value, np.float32)}
    group = ((shape, "FP32", (FEATURES,)),)
    return Request(id, inputs, rows, group, arrived, deadline, priority, tenant)


def limits(
    *,
    cap: int = 8,
    delay_milliseconds: int = 0,
    discipline: Discipline = Discipline.FIRST_IN_FIRST_OUT,
    generation: int = 1,
    depth: int = 1000,
) -> LimitsUpdate:
    """Return limits with a queue that is deep enough not to matter."""
    return LimitsUpdate(
        generation=generation,
        max_batch_size=cap,
        max_queue_depth=depth,
        max_queue_delay_milliseconds=delay_milliseconds,
        discipline=discipline,
    )


@dataclass
class FakeClock:
    """A clock that moves only by `advance`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def info(max_rows: int = 4096) -> ModelInfo:
    """Return what a model of one input `x` and one output `y` says of itself."""
    return ModelInfo(
        name="double",
        platform="test",
        backend="test",
        inputs=(TensorSpec("x", "FP32", (-1, FEATURES)),),
        outputs=(TensorSpec("y", "FP32", (-1, FEATURES)),),
        max_rows=max_rows,
    )


@dataclass
class Doubling:
    """y = 2x in `fixed + per_row * rows` seconds of fake time; fails on POISON, and above `fits` rows."""

    clock: FakeClock = field(default_factory=FakeClock)
    fixed_seconds: float = 0.0
    row_seconds: float = 0.0
    fits: int = 4096
    spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda outputs: outputs
    info: ModelInfo = field(default_factory=info)
    batches: list[int] = field(default_factory=list)
    """Rows of every run, failed ones included."""

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        x = inputs["x"]
        self.batches.append(x.shape[0])
        if x.shape[0] > self.fits:
            raise OutOfMemory(f"{x.shape[0]} rows do not fit")
        self.clock.advance(self.fixed_seconds + self.row_seconds * x.shape[0])
        if (x == POISON).any():
            raise ValueError("a poisoned row\nand a second line")
        return self.spoil({"y": np.multiply(x, 2, dtype=np.float32)})

    def memory_bound_rows(self) -> int:
        return 4096


def an_engine(
    model: Doubling, update: LimitsUpdate | None = None, bound: int = 4096
) -> BatchEngine:
    """Return an engine without a prior: its curve knows nothing yet."""
    return BatchEngine(model, update or limits(), bound, BatchServiceCurve())


def answer(end: object) -> float:
    """Return the one value that a completed request's output holds everywhere."""
    assert isinstance(end, Completed), end
    (value,) = set(end.outputs["y"].ravel().tolist())
    return float(value)


@dataclass
class Ends:
    """Every reported end by request id; a second end of a request is an error."""

    of: dict[str, End] = field(default_factory=dict)

    def take(self, settled: Settled | None) -> Settled | None:
        """Record the ends, and return `settled`."""
        for name, end in settled.ends if settled else ():
            assert name not in self.of, f"{name} ended twice"
            self.of[name] = end
        return settled


def step(engine: BatchEngine, model: Doubling) -> Batch | WaitUntil | NothingWaits:
    """Form a batch, run it, settle it."""
    placement = engine.plan(model.clock.now)
    if isinstance(placement, Batch):
        engine.complete(engine.run(placement, model.clock, lambda: None))
    return placement


def submit(engine: BatchEngine, *ids: str, now: float = 0.0, rows: int = 1) -> None:
    """Hand over a request of `rows` rows for each id."""
    engine.take(Submit(tuple(a_request(name, arrived=now, rows=rows) for name in ids)), now)
