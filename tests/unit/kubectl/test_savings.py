"""What the law saved: the search of the fixed count and the fixed mix, and the comparison with each baseline."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_kubectl.simulate.cases import CaseLabels
from penstock_kubectl.simulate.fixed_mix import lowest_mix, price
from penstock_kubectl.simulate.savings import Saving, lowest_count
from penstock_kubectl.simulate.scenario import Result
from penstock_operator.decide.variants.mix import VariantOffer
from penstock_simulator.outcome import BatchSummary, RunSummary


def result(law: str, hours: float, attainment: float = 0.995, per_hour: str | None = "2.50") -> Result:  # fmt: skip
    figures: dict[str, Any] = dict.fromkeys(RunSummary.__dataclass_fields__, 0)
    known: dict[str, Any] = {
        "batch_work": None,
        "law": law,
        "gpu_hours": hours,
        "attainment": attainment,
        "target": 0.99,
    }
    cost = None if per_hour is None else Decimal(hours) * Decimal(per_hour)
    run: Any = None
    return Result(CaseLabels(law, "", ""), run, RunSummary(**{**figures, **known}), 2.0, cost)


def test_a_saving_is_the_share_of_the_baselines_cost() -> None:
    saving = Saving(result("as it is", 4.0), result("fixed-7", 10.0), "EUR")
    assert saving.share == pytest.approx(0.6)  # 1 - 4 / 10
    text = saving.sentence()
    assert text == "as it is costs 10.00 EUR, fixed-7 25.00 EUR: 60.0 % less"


def test_unlike_replicas_are_compared_by_their_cost_and_without_prices_by_device_hours() -> None:
    cheap = result("fixed: 5 cpu", 10.0, per_hour="0.50")
    saving = Saving(result("as it is", 4.0), cheap, "EUR")
    assert saving.sentence() == "as it is costs 10.00 EUR, fixed: 5 cpu 5.00 EUR: 100.0 % more"
    unpriced = (result("as it is", 4.0, per_hour=None), result("fixed-7", 10.0, per_hour=None))
    text = Saving(*unpriced, None).sentence()
    assert text == "as it is costs 8.00 device hours, fixed-7 20.00 device hours: 60.0 % less"


def test_a_law_that_costs_more_says_so() -> None:
    saving = Saving(result("as it is", 5.0), result("fixed-4", 4.0), "EUR")
    assert saving.sentence().endswith("12.50 EUR, fixed-4 10.00 EUR: 25.0 % more")


@pytest.mark.parametrize(("own", "other"), [(0.98, 0.995), (0.995, 0.98), (0.9, 0.9)])
def test_runs_that_miss_the_objective_are_not_compared(own: float, other: float) -> None:
    saving = Saving(result("as it is", 4.0, own), result("hpa-70", 10.0, other), "EUR")
    assert saving.share is None
    text = saving.sentence()
    assert "not comparable" in text
    assert ("as it is attains" in text, "hpa-70 attains" in text) == (own < 0.99, other < 0.99)


@pytest.mark.parametrize(("own", "other"), [(0, 1), (1, 0)])
def test_runs_that_did_other_batch_work_are_not_compared(own: int, other: int) -> None:
    saving = Saving(batched("as it is", own), batched("hpa-70", other), "EUR")
    assert saving.share is None
    late = "as it is" if own == 0 else "hpa-70"
    assert saving.sentence().endswith(f"because {late} answers 0 of 1 batches in time")


def batched(law: str, in_time: int) -> Result:
    plain = result(law, 4.0)
    work = BatchSummary(1, in_time, 100, 100 * in_time, 0.5, 2.0)
    return replace(plain, outcome=replace(plain.outcome, batch_work=work))


def test_a_cost_per_thousand_is_of_all_rows() -> None:
    # 4 replica hours at 2.50 are 10 EUR; for 20,000 rows 0.50 EUR for each 1,000
    assert result("as it is", 4.0).per_thousand(20_000) == Decimal("0.5")


@given(st.integers(1, 80), st.integers(1, 64), st.floats(0.1, 100))
def test_the_lowest_count_that_attains_is_found(least: int, most: int, need: float) -> None:
    tried: list[int] = []

    def attains(count: int) -> bool:
        tried.append(count)
        return count >= least

    assert lowest_count(attains, need, most) == min(least, most)
    assert max(tried) <= most
    assert len(tried) <= 14


LARGE = VariantOffer("large", 140.0, 6.0, 0, 8)
SMALL = VariantOffer("small", 16.0, 0.6, 0, 40)


def serves(counts: Mapping[str, int], needs: Mapping[str, float]) -> bool:
    """Return whether a mix serves the demand, of which each variant serves the more the less its own need is."""
    rows = {"large": 140.0, "small": 16.0}
    return sum(count * rows[name] / needs[name] for name, count in counts.items()) >= 1


@given(st.floats(20, 900), st.floats(1.0, 1.6), st.integers(8, 48))
def test_the_fixed_mix_is_near_the_cheapest_that_exhaustive_search_finds(
    need: float, more: float, most: int
) -> None:
    needs = {"large": need, "small": more * need}  # slow batches leave less time to wait
    prices = [
        6.0 * large + 0.6 * small
        for large, small in product(range(9), range(41))
        if large + small <= most and serves({"large": large, "small": small}, needs)
    ]
    tried: list[tuple[int, ...]] = []

    def attains(counts: Mapping[str, int]) -> bool:
        tried.append(tuple(counts.values()))
        return serves(counts, needs)

    mix = lowest_mix(attains, [LARGE, SMALL], 0.6 * need, most)
    assert len(set(tried)) <= 40
    assert mix is not None
    assert serves(mix, needs)
    assert sum(mix.values()) <= most
    assert price(mix, [LARGE, SMALL]) <= 1.05 * min(prices) + 0.6  # one small replica
