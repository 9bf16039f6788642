"""The fixed mixes that attain the objective on a trace, found by exhaustive search."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import spare_seconds
from penstock_simulator.pods.routing import Times
from penstock_simulator.variants.scenario import VariantsScenario
from penstock_simulator.variants.simulation import FixedMix, MixMoment, simulate_variants
from tests.bench.variants import plan

Counts = Mapping[str, int]


def best_caps(scenario: VariantsScenario) -> Mapping[str, int]:
    """Return the largest batch of each variant of which two fit the objective."""
    limit = 0.9 * (spare_seconds(scenario.world.settings) or 0.0) / 2
    sizes = range(1, scenario.world.settings.size_max + 1)
    return {
        variant.name: max([1, *(b for b in sizes if variant.service.seconds(b) <= limit)])
        for variant in scenario.variants
    }


def attaining_mixes(scenario: VariantsScenario, arrivals: Times) -> list[Counts]:
    """Return the mixes that attain and of which no replica can be spared.

    Another replica never makes a mix miss, so for each count of the first variant the border of the other two is a staircase.
    """
    mixes = list[Counts]()
    small = plan.MOST["small"] + 1
    for large in range(plan.MOST["large"] + 1):
        small = _least_small(scenario, arrivals, large, small)
        mixes += _staircase(scenario, arrivals, large, small)
        if mixes and mixes[-1] == {"large": large, "small": 0, "cpu": 0}:
            break
    return mixes


def _least_small(scenario: VariantsScenario, arrivals: Times, large: int, top: int) -> int:
    """Return the least count that attains without cpu; `top` attains or is above the limit."""
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        if attains(scenario, arrivals, {"large": large, "small": middle, "cpu": 0}):
            high = middle
        else:
            low = middle + 1
    return high


def _staircase(
    scenario: VariantsScenario, arrivals: Times, large: int, small: int
) -> Iterator[Counts]:
    """Yield the mixes of the border with `large`; `small` is the least count without cpu, above the limit if none attains."""
    if small <= plan.MOST["small"]:
        yield {"large": large, "small": small, "cpu": 0}
    cpu = 1
    while small and cpu <= plan.MOST["cpu"]:
        fewer = {"large": large, "small": small - 1, "cpu": cpu}
        if attains(scenario, arrivals, fewer):
            small -= 1
            yield fewer
        else:
            cpu += 1


def attains(scenario: VariantsScenario, arrivals: Times, counts: Counts) -> bool:
    """Return whether a fixed mix attains the objective."""
    whole = {plan.HOPELESS: 0, **counts}
    variants = tuple(
        replace(variant, start_replicas=whole[variant.name]) for variant in scenario.variants
    )
    weights = {
        variant.name: variant.service.capacity(cap)
        for variant, cap in zip(variants, best_caps(scenario).values(), strict=True)
    }
    policy = FixedMix(MixMoment(whole, best_caps(scenario), weights))
    run = simulate_variants(replace(scenario, variants=variants), policy, arrivals)
    return run.summary.attains


def cost(counts: Counts, prices: Mapping[str, float], hours: float) -> float:
    """Return the price of a fixed mix."""
    return hours * sum(prices[name] * count for name, count in counts.items())
