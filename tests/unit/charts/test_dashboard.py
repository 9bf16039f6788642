"""The Grafana dashboard: where the sidecar finds it, and that every metric and label in it exists."""

import json
import re
from typing import Any

import pytest

from penstock_api import names
from penstock_operator.telemetry import policy_metrics
from penstock_operator.telemetry.metrics import REGISTRY
from tests.unit.charts.rendered import CHART, only, render

FILE = CHART / "dashboards" / "pools.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES += [
    variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"
]


def known() -> set[str]:
    """Return every metric name of the runtime and of the operator, as scraped, without `_bucket` and its like."""
    assert policy_metrics.REQUESTED, "registered with the operator's own"
    operator = {
        name
        for family in REGISTRY.collect()
        for name in (family.name, f"{family.name}_total")
        if family.type == "counter" or not name.endswith("_total")
    }
    runtime = {
        value for key, value in vars(names).items() if key.startswith("METRIC_") and value.islower()
    }
    return operator | runtime


def asked(query: str) -> set[str]:
    """Return the metric names in a query."""
    matches = re.findall(r"\b(?:penstock_|vllm:)\w+", query)
    return {re.sub(r"_(bucket|sum|count)$", "", match) for match in matches}


@pytest.mark.parametrize("query", QUERIES)
def test_every_metric_of_a_query_exists(query: str) -> None:
    assert asked(query)
    assert asked(query) <= known()


def test_every_query_groups_by_labels_of_its_metrics() -> None:
    page = (CHART.parents[1] / "docs" / "reference" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", page, re.MULTILINE)
    scraped = {"le", "namespace"}
    labels = {
        name.removesuffix("_total"): {*re.findall(r"\w+", text), *scraped} for name, text in rows
    }
    for query in QUERIES:
        grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.findall(r"\w+", group)}  # fmt: skip
        known_labels = [labels.get(name.removesuffix("_total"), set()) for name in asked(query)]
        assert grouped <= set().union(*known_labels), query


def test_a_query_over_operators_does_not_add_up_installations() -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["title"].startswith("Operator:")]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert queries
    assert all("sum by (namespace" in query for query in queries)


def test_every_query_is_bound_to_the_chosen_pool_or_is_the_operators() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            bound = 'namespace="$namespace", pool="$pool"' in target["expr"]
            assert bound or panel["title"].startswith("Operator:"), panel["title"]


UNITS = {"short", "percentunit", "s", "reqps", "ops", "suffix: rows/s", "suffix: tokens/s"}
"""Of Grafana, but for rows and tokens: its `rps` prints reads per second."""


def test_the_axis_of_a_panel_names_what_its_expressions_count() -> None:
    for panel in DASHBOARD["panels"]:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert unit in UNITS, panel["title"]
        counts_rows = any("_rows_per_second" in query["expr"] for query in panel["targets"])
        assert counts_rows == (unit == "suffix: rows/s"), panel["title"]


def test_panels_do_not_overlap_and_each_has_its_own_number() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_it_is_a_config_map_that_grafanas_sidecar_finds() -> None:
    config_map = only(render(metrics__dashboard__enabled="true"), "ConfigMap", "-dashboards")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config_map["data"]["penstock-pools.json"]) == DASHBOARD


def test_it_is_off_until_asked_for() -> None:
    assert not [manifest for manifest in render() if manifest["kind"] == "ConfigMap"]
