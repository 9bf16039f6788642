"""The percentage of an objective: 50 to 99.9, one decimal, one spelling for each value."""

import pytest
from pydantic import ValidationError

from penstock_api.types.objectives import Objective, ObjectiveMetric


def percent_of(value: object) -> object:
    raw = {"metric": "RequestLatency", "milliseconds": 500, "percent": value}
    return Objective.model_validate(raw).percent


def test_an_objective_of_earlier_releases_has_none() -> None:
    objective = Objective(metric=ObjectiveMetric.REQUEST_LATENCY, milliseconds=500)
    assert objective.percent is None


@pytest.mark.parametrize(
    ("written", "read"),
    [(50, 50), (99, 99), ("95", 95), ("99.0", 99), ("99.9", "99.9"), ("50.1", "50.1")],
)
def test_a_percentage_is_an_integer_where_it_can_be(written: object, read: object) -> None:
    assert percent_of(written) == read


@pytest.mark.parametrize("value", [49, 100, 9, -99, "99.95", "99.", "100.0", "many", " 99", "9e1"])
def test_other_percentages_are_rejected_with_the_range(value: object) -> None:
    with pytest.raises(ValidationError, match=r"must be 50 to 99.9 with at most one decimal"):
        percent_of(value)
