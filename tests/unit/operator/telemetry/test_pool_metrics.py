"""The series of pools as text: equal to the rows, without unknown values."""

import math
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from penstock_api.types.status import CostStatus
from penstock_operator.telemetry.pool_metrics import PoolRow, PoolTable
from tests.unit.operator.reconciler.test_reporter import FIGURES

Values = dict[tuple[str, str, str], float]


def table() -> PoolTable:
    row = PoolRow(1.7e9, 2, 1, FIGURES, reversals=3.0, good=1e16, requests=12.0)
    blind = FIGURES._replace(demand=None, signals_absent=True, utilization=math.inf)
    return PoolTable({("team-a", "chat"): row, ("team-b", "chat"): replace(row, figures=blind)})


def by_name(samples: list[tuple[str, dict[str, str], float]]) -> Values:
    return {(name, labels["namespace"], labels["pool"]): value for name, labels, value in samples}


def parsed(text: str) -> Values:
    return by_name(
        [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    )


def test_the_text_equals_that_of_prometheus_client() -> None:
    rows = table()
    collected = by_name(
        [
            (sample.name, sample.labels, sample.value)
            for family in rows.collect()
            for sample in family.samples
        ]
    )
    assert parsed(rows.text()) == collected
    assert collected["penstock_operator_objective_good_total", "team-a", "chat"] == 1e16
    assert collected["penstock_operator_effective_utilization_ratio", "team-b", "chat"] == math.inf
    assert len(collected) == 2 * 20 - 1


def test_an_unknown_value_has_no_line() -> None:
    values = parsed(table().text())
    assert ("penstock_operator_demand_rows_per_second", "team-b", "chat") not in values
    assert values["penstock_operator_signals_absent", "team-b", "chat"] == 1


def test_a_deleted_pool_has_no_line() -> None:
    rows = table()
    rows.forget("team-a", "chat")
    assert {namespace for _, namespace, _ in parsed(rows.text())} == {"team-b"}


def test_the_price_of_an_hour_has_its_currency_and_an_unknown_one_no_line() -> None:
    message = "1 pod at 2.66 EUR"
    costs = {
        "a": None,
        "b": CostStatus(
            currency="EUR", per_hour="7.98", batch_work_per_hour="1.995", message=message
        ),
        "c": CostStatus(currency="EUR", message="no price applies"),
    }
    rows = PoolTable(
        {
            ("t", pool): PoolRow(0.0, 0, 0, FIGURES._replace(cost=cost))
            for pool, cost in costs.items()
        }
    )
    lines = [line for line in rows.text().splitlines() if "_cost_" in line and line[0] != "#"]
    prefix = "penstock_operator_cost"
    assert lines == [
        f'{prefix}_per_hour{{namespace="t",pool="b",currency="EUR"}} 7.98',
        f'{prefix}_batch_work_per_hour{{namespace="t",pool="b",currency="EUR"}} 1.995',
        f'{prefix}_unknown{{namespace="t",pool="b"}} 0.0',
        f'{prefix}_unknown{{namespace="t",pool="c"}} 1.0',
    ]
    assert sum(len(family.samples) for family in rows.collect() if "_cost_" in family.name) == 4
