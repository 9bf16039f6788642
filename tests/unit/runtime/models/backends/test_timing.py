import numpy as np

from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.models.backends.timing import fastest, rates
from penstock_runtime.request import Tensor


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed:
    """Takes `fixed + each * rows` seconds, and the first run of a turn ten times as long."""

    info: ModelInfo

    def __init__(self, clock: Clock, fixed: float, each: float) -> None:
        self.clock, self.fixed, self.each, self.last = clock, fixed, each, -1.0

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        seconds = self.fixed + self.each * len(inputs["x"])
        self.clock.now += seconds if self.last == self.clock.now else 10 * seconds
        self.last = self.clock.now
        return {}

    def memory_bound_rows(self) -> int:
        return 1


BATCHES: list[dict[str, Tensor]] = [{"x": np.zeros((rows, 1))} for rows in (1, 8, 32)]


def test_rates_are_rows_per_second_without_the_first_run_of_a_turn() -> None:
    clock = Clock()
    models = {"a": Timed(clock, 0.01, 0.001), "b": Timed(clock, 0.02, 0.0)}
    measured = rates(models, BATCHES, clock)
    np.testing.assert_allclose(measured["a"], [1 / 0.011, 8 / 0.018, 32 / 0.042])
    np.testing.assert_allclose(measured["b"], [50, 400, 1600])


def test_a_slow_model_is_measured_twice_and_no_more() -> None:
    clock = Clock()
    rates({"a": Timed(clock, 100.0, 0.0)}, BATCHES, clock, seconds=1.0)
    assert clock.now <= 2 * 3 * 1200.0


def test_the_geometric_mean_decides() -> None:
    assert fastest({"a": (100.0, 10.0), "b": (50.0, 30.0)}) == "b"
    assert fastest({"a": (10.0,), "b": (10.0,)}) == "a"
