"""The search for fixed mixes lists only mixes that attain, and each of which no replica can be spared."""

from itertools import product

import numpy as np
import pytest

from penstock_simulator.pods.routing import Times
from penstock_simulator.variants.scenario import VariantsScenario
from tests.bench.variants import fixed, plan

UNITS = {"large": 12, "small": 2, "cpu": 1}


@pytest.mark.parametrize("need", [3, 40, 79, 80, 81, 100, 161, 300])
def test_every_mix_of_the_border_attains_and_none_is_left_out(
    need: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attains(scenario: VariantsScenario, arrivals: Times, counts: fixed.Counts) -> bool:
        return sum(UNITS[name] * count for name, count in counts.items()) >= need

    monkeypatch.setattr(fixed, "attains", attains)
    scenario, arrivals = plan.scenario("even"), np.empty(0)
    ranges = (range(plan.MOST[name] + 1) for name in UNITS)
    mixes = [dict(zip(UNITS, counts, strict=True)) for counts in product(*ranges)]
    fits = [mix for mix in mixes if attains(scenario, arrivals, mix)]
    known = fixed.attaining_mixes(scenario, arrivals)
    assert all(mix in fits for mix in known)
    for prices in ({"large": 20, "small": 2, "cpu": 1}, {"large": 1, "small": 3, "cpu": 1}):
        costs = [fixed.cost(mix, prices, 1.0) for mix in fits]
        assert min((fixed.cost(mix, prices, 1.0) for mix in known), default=0) == min(
            costs, default=0
        )
