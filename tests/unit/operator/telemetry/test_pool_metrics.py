"""The pools' series as text: what Prometheus reads is what the rows say, and nothing of what is not known."""

import math
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from penstock_operator.telemetry.pool_metrics import PoolRow, PoolTable
from tests.unit.operator.test_reporter import FIGURES

Values = dict[tuple[str, str, str], float]


def table() -> PoolTable:
    row = PoolRow(1.7e9, 2, 1, FIGURES, reversals=3.0, good=1e16, requests=12.0)
    blind = replace(FIGURES, demand=None, signals_absent=True, utilization=math.inf)
    return PoolTable({("team-a", "chat"): row, ("team-b", "chat"): replace(row, figures=blind)})


def by_name(samples: list[tuple[str, dict[str, str], float]]) -> Values:
    return {(name, one["namespace"], one["pool"]): value for name, one, value in samples}


def parsed(text: str) -> Values:
    return by_name(
        [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    )


def test_the_text_says_what_prometheus_client_would_say() -> None:
    rows = table()
    collected = by_name(
        [(one.name, one.labels, one.value) for each in rows.collect() for one in each.samples]
    )
    assert parsed(rows.text()) == collected
    assert collected["penstock_operator_objective_good_total", "team-a", "chat"] == 1e16
    assert collected["penstock_operator_effective_utilization_ratio", "team-b", "chat"] == math.inf
    assert len(collected) == 2 * 18 - 1


def test_what_is_not_known_has_no_line() -> None:
    told = parsed(table().text())
    assert ("penstock_operator_demand_rows_per_second", "team-b", "chat") not in told
    assert told["penstock_operator_signals_absent", "team-b", "chat"] == 1


def test_a_pool_that_is_gone_has_no_line() -> None:
    rows = table()
    rows.forget("team-a", "chat")
    assert {namespace for _, namespace, _ in parsed(rows.text())} == {"team-b"}
