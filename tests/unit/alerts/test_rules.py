"""The alert rules: sound PromQL over metrics that exist, each fired by a story of promtool's, and in the chart as they are."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_operator.telemetry import metrics
from tests.support.cluster.places import Places
from tests.unit.charts.rendered import CHART, only, render

RULES = CHART / "rules" / "penstock.yaml"
CASES = Path(__file__).with_name("cases.yaml")


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    built = Places.from_env().commands / "promtool"
    program = str(built) if built.exists() else shutil.which("promtool")
    assert program is not None, "promtool is fetched by `make tools`"
    argv = [program, *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_promtool_finds_nothing_wrong() -> None:
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_scenario_ends_as_promtool_expects() -> None:
    done = promtool("test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(
    rules: list[dict[str, Any]],
) -> None:
    rule_tests = [rule_test for case in yaml.safe_load(CASES.read_text())["tests"] for rule_test in case["alert_rule_test"]]  # fmt: skip
    fires = {rule_test["alertname"] for rule_test in rule_tests if rule_test.get("exp_alerts")}
    silent = {rule_test["alertname"] for rule_test in rule_tests if not rule_test.get("exp_alerts")}
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    assert fires == alerts
    assert alerts <= silent


def test_every_metric_is_one_that_the_operator_or_a_gateway_exports(
    rules: list[dict[str, Any]],
) -> None:
    known = {
        name
        for family in metrics.REGISTRY.collect()
        for name in (family.name, f"{family.name}_total", f"{family.name}_bucket")
        if family.type == "histogram" or not name.endswith("_bucket")
    }
    page = (CHART.parents[1] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    known |= set(re.findall(r"^\| `(penstock_gateway_\w+)`", page, re.MULTILINE))
    used = {
        name
        for rule in rules
        for name in re.findall(r"penstock_(?:operator|gateway)_\w+", rule["expr"])
    }
    assert len({name.split("_")[1] for name in used}) == 2
    assert used <= known


def test_every_alert_says_what_to_do(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
            assert set(rule["annotations"]) == {"summary", "remedy"}, rule["alert"]


def test_the_chart_wraps_the_same_rules_when_enabled() -> None:
    assert not [manifest for manifest in render() if manifest["kind"] == "PrometheusRule"]
    objects = render(
        metrics__prometheusRule__enabled="true", metrics__prometheusRule__labels__release="p"
    )
    prometheus_rule = only(objects, "PrometheusRule")
    rules = RULES.read_text().replace("leader ==", 'leader{namespace="penstock-system"} ==')
    plain = yaml.safe_load(rules)
    plain["groups"][0]["rules"][0]["labels"]["namespace"] = "penstock-system"
    assert prometheus_rule["spec"] == plain
    assert prometheus_rule["metadata"]["labels"]["release"] == "p"
