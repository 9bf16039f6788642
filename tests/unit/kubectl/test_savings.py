"""What the law saved: the search of the fixed count, and the comparison with each baseline."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_kubectl.savings import ReplicaPrice, Saving, lowest_count
from penstock_simulator.outcome import RunSummary


def summary(law: str, hours: float, attainment: float = 0.995) -> RunSummary:
    figures: dict[str, Any] = dict.fromkeys(RunSummary.__dataclass_fields__, 0)
    return RunSummary(
        **{**figures, "law": law, "gpu_hours": hours, "attainment": attainment, "target": 0.99}
    )


PRICE = ReplicaPrice(Decimal("2.50"), "EUR")


def amount(result: RunSummary) -> str:
    return f"{PRICE.of(result):.2f} EUR"


def test_a_saving_is_the_share_of_the_baselines_cost() -> None:
    saving = Saving(summary("as it is", 4.0), summary("fixed-7", 10.0))
    assert saving.share == pytest.approx(0.6)  # 1 - 4 / 10
    text = saving.sentence(amount)
    assert text == "as it is costs 10.00 EUR, fixed-7 25.00 EUR: 60.0 % less"


def test_a_law_that_costs_more_says_so() -> None:
    saving = Saving(summary("as it is", 5.0), summary("fixed-4", 4.0))
    assert saving.sentence(amount).endswith("12.50 EUR, fixed-4 10.00 EUR: 25.0 % more")


@pytest.mark.parametrize(("own", "other"), [(0.98, 0.995), (0.995, 0.98), (0.9, 0.9)])
def test_runs_that_miss_the_objective_are_not_compared(own: float, other: float) -> None:
    saving = Saving(summary("as it is", 4.0, own), summary("hpa-70", 10.0, other))
    assert saving.share is None
    text = saving.sentence(amount)
    assert "not comparable" in text
    assert ("as it is attains" in text, "hpa-70 attains" in text) == (own < 0.99, other < 0.99)


def test_a_cost_per_thousand_is_of_all_rows() -> None:
    # 4 replica hours at 2.50 are 10 EUR; for 20,000 rows 0.50 EUR for each 1,000
    assert PRICE.per_thousand(summary("as it is", 4.0), 20_000) == Decimal("0.5")


@given(st.integers(1, 80), st.integers(1, 64), st.floats(0.1, 100))
def test_the_lowest_count_that_attains_is_found(least: int, most: int, need: float) -> None:
    tried: list[int] = []

    def attains(count: int) -> bool:
        tried.append(count)
        return count >= least

    assert lowest_count(attains, need, most) == min(least, most)
    assert max(tried) <= most
    assert len(tried) <= 14
