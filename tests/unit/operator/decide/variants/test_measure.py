"""What the law of one variant measures for the decision on the whole pool."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.scaling.law import LawInput
from penstock_operator.decide.variants.measure import variant_figures
from penstock_operator.observed import BatchLoad
from penstock_operator.variants import VariantFigures
from penstock_simulator.arrivals import steps
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import EPOCH, Routing
from penstock_simulator.variants.scenario import PoolVariant, VariantsScenario
from penstock_simulator.variants.simulation import LAW, MixMoment, simulate_variants
from tests.unit.simulator.scenarios import SURE, world


class Observing:
    """Keeps the counts, and the figures of every tick."""

    name = "observing"

    def __init__(self) -> None:
        self.state = LAW.initial(EPOCH)
        self.cap: int | None = None
        self.figures: list[VariantFigures] = []

    def decide(
        self, observed: Mapping[str, LawInput], batches: tuple[BatchLoad, ...], now: float
    ) -> MixMoment:
        seen = observed["only"]._replace(cap=self.cap)
        self.state, decision = LAW.step(self.state, seen, EPOCH + now)
        self.cap = decision.cap
        self.figures.append(variant_figures(self.state, seen, decision, 2.0, EPOCH + now))
        return MixMoment({"only": 2}, {"only": decision.cap}, {"only": 1.0})


def measured(a: float, c: float) -> list[VariantFigures]:
    curve = ServiceModel(a, c, sigma=0.0, tail_share=0.0)
    variant = PoolVariant("only", curve, 2.0, start_replicas=2)
    scenario = VariantsScenario(
        replace(world(routing=Routing.LEAST_REQUEST), cold=SURE), (variant,)
    )
    policy = Observing()
    simulate_variants(scenario, policy, steps([(20.0, 120.0)], seed=1))
    return policy.figures


def test_the_figures_are_those_of_full_batches_at_the_planned_cap() -> None:
    figures = measured(0.15, 0.04)[-2]
    shape, load = figures.shape, figures.load
    assert shape is not None
    assert load is not None
    assert shape.seconds == pytest.approx(0.15 + 0.04 * shape.cap, rel=0.02)
    assert shape.intercept == pytest.approx(0.15 / shape.seconds, rel=0.05)
    assert figures.capacity == pytest.approx(UTILIZATION * shape.cap / shape.seconds)
    assert load.recent == pytest.approx(20.0, rel=0.3)
    assert load.serving == pytest.approx(2 * shape.cap / shape.seconds)
    assert load.settled >= load.on_time > 1000
    assert figures.per_hour == 2.0


def test_before_the_first_rate_no_load_is_known() -> None:
    figures = measured(0.15, 0.04)[0]
    assert (figures.capacity, figures.load) == (None, None)


def test_a_device_of_which_no_batch_is_short_enough_has_no_capacity() -> None:
    figures = measured(0.6, 0.05)[-2]
    assert figures.capacity == 0.0
    assert figures.shape is None
