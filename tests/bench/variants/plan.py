"""Fixed parameters of the bench of variants: curves, price lists, scale and bounds."""

from dataclasses import replace
from math import inf

from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import ColdStarts, Routing
from penstock_simulator.variants.scenario import PoolVariant, VariantsScenario
from tests.bench.control import plan

CURVES = {
    "large": ServiceModel(0.06, 0.004),
    "small": ServiceModel(0.15, 0.04),
    "cpu": ServiceModel(0.18, 0.06),
    "old": ServiceModel(0.6, 0.05),
}
"""An accelerator, one of a sixth of its capacity, cores, and a device of which no batch meets the objective."""
HOPELESS = "old"
PRICES = {
    "even": {"large": 6.0, "small": 0.55, "cpu": 0.22, "old": 0.05},
    "large is cheap": {"large": 4.0, "small": 0.70, "cpu": 0.35, "old": 0.05},
    "small is cheap": {"large": 12.0, "small": 0.55, "cpu": 0.30, "old": 0.05},
}
"""Price of a replica-hour."""
MEAN_ROWS = 150.0
"""Mean demand of every trace, in rows a second."""
MOST = {"large": 8, "small": 40, "cpu": 80, "old": 8}
COST_TARGET = 1.10
"""Cost relative to the cheapest fixed mix that attains."""


def scenario(prices: str, seed: int = 1, routing: Routing = Routing.LEAST_REQUEST, large: int = 2, seconds: float = inf) -> VariantsScenario:  # fmt: skip
    """Return the pool at a price list, for a trace of `seconds`; `large` replicas are Ready at the start."""
    world = plan.scenario(seed, 60.0, routing).of_length(seconds)
    settings = replace(world.settings, max_replicas=sum(MOST.values()))
    cold = ColdStarts(median_seconds=60.0)
    variants = tuple(
        PoolVariant(name, curve, PRICES[prices][name], 0, MOST[name], cold=cold)
        for name, curve in CURVES.items()
    )
    first = replace(variants[0], start_replicas=large)
    return VariantsScenario(replace(world, settings=settings), (first, *variants[1:]))
