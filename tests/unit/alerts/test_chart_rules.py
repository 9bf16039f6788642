"""The rules as the chart renders them: alerts switched off, thresholds, severities, labels and runbooks."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.alerts.test_rules import RULES, promtool
from tests.unit.charts.rendered import CHART, Object, only, rejection, render

PLAIN: list[Object] = yaml.safe_load(RULES.read_text())["groups"]
THRESHOLDS: dict[str, str] = yaml.safe_load(RULES.with_name("thresholds.yaml").read_text())
SETTINGS = "metrics.prometheusRule"


def alerts(groups: list[Object]) -> dict[str, Object]:
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def groups(**values: str) -> list[Object]:
    """Return the groups of the PrometheusRule; a name that is no setting is an alert's, as `PenstockBehind__for`."""
    named = {
        f"{SETTINGS}.{'alerts.' if name.startswith('Penstock') else ''}{name}": value
        for name, value in values.items()
    }
    enabled: Any = {f"{SETTINGS}.enabled": "true", **named}
    rule_groups: list[Object] = only(render(CHART, **enabled), "PrometheusRule")["spec"]["groups"]
    return rule_groups


def test_a_threshold_replaces_every_comparison_with_the_default_and_nothing_else(
    tmp_path: Path,
) -> None:
    others = {alert: f"7.{number:02}1" for number, alert in enumerate(THRESHOLDS)}
    changed = groups(**{f"{alert}__threshold": other for alert, other in others.items()})
    for alert, other in others.items():
        plain = alerts(PLAIN)[alert]["expr"]
        number = rf"(> |0\.9 / ){re.escape(THRESHOLDS[alert])}(?![0-9.])"
        expression = alerts(changed)[alert]["expr"]
        assert expression != plain
        assert expression == re.sub(number, rf"\g<1>{other}", plain)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": changed}))
    assert promtool("check", "rules", file).returncode == 0


def firing(groups: list[Object], series: dict[str, str], alert: str, folder: Path) -> str:
    """Return what promtool says of the alert after 400 minutes if none is expected; empty if none fires."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    expected = [{"alertname": alert, "eval_time": "400m", "exp_alerts": []}]
    case = {"interval": "1m", "input_series": inputs, "alert_rule_test": expected}
    file = folder / "cases.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alert", "threshold", "percent", "late", "fires"),
    [
        ("PenstockObjectiveBurnFast", "20", 95, 1.0, True),
        ("PenstockObjectiveBurnSlow", "8", 85, 1.0, True),
        ("PenstockObjectiveBurnFast", "2", 75, 0.3, False),
        ("PenstockObjectiveBurnFast", "2", 75, 0.6, True),
    ],
)
def test_a_pool_fires_at_a_threshold_of_burn_rate_or_when_nearly_all_requests_are_late(
    alert: str, threshold: str, percent: int, late: float, tmp_path: Path, *, fires: bool
) -> None:
    changed = groups(**{f"{alert}__threshold": threshold})
    pool = '{namespace="a", pool="p"}'
    series = {
        f"penstock_operator_objective_requests_total{pool}": "0+1000x410",
        f"penstock_operator_objective_good_total{pool}": f"0+{1000 * (1 - late):.0f}x410",
        f"penstock_operator_objective_target_ratio{pool}": f"{percent / 100}x410",
    }
    assert (alert in firing(changed, series, alert, tmp_path)) == fires


@pytest.mark.parametrize("without", ["0x410", "_x410"], ids=["standby", "gone"])
def test_only_the_installation_without_a_leader_fires(without: str, tmp_path: Path) -> None:
    own, other = (
        f'penstock_operator_leader{{namespace="{namespace}"}}'
        for namespace in ("penstock-system", "another")
    )
    said = firing(groups(), {own: without, other: "1x410"}, "PenstockNoLeader", tmp_path)
    assert 'namespace="penstock-system"' in said
    assert not firing(groups(), {own: "1x410", other: without}, "PenstockNoLeader", tmp_path)


def test_an_alert_without_a_threshold_has_none_to_change() -> None:
    alert = f"{SETTINGS}.alerts.PenstockNoLeader"
    assert "invalid propertyName 'threshold'" in rejection(f"{alert}.threshold", "1")


def test_the_schema_knows_every_alert_and_which_have_thresholds() -> None:
    names = list(alerts(PLAIN))
    for disabled in (names[::2], names[1::2]):
        left = groups(**{f"{alert}__enabled": "false" for alert in disabled})
        assert list(alerts(left)) == [name for name in names if name not in disabled]


def test_without_its_alerts_a_group_is_left_out() -> None:
    (operators, *_) = PLAIN
    disabled = {f"{rule['alert']}__enabled": "false" for rule in operators["rules"]}
    assert [group["name"] for group in groups(**disabled)] == [group["name"] for group in PLAIN[1:]]


def test_severity_duration_and_labels_are_an_alerts_own_over_those_of_all() -> None:
    changed = alerts(
        groups(
            alertLabels__team="a",
            alertLabels__page="no",
            PenstockBehind__severity="info",
            PenstockBehind__for="20m",
            PenstockBehind__labels__page="yes",
        )
    )
    behind, stalled = changed["PenstockBehind"], changed["PenstockLoopStalled"]
    assert behind["labels"] == {"severity": "info", "team": "a", "page": "yes"}
    assert behind["for"] == "20m"
    assert stalled["labels"] == {"severity": "critical", "team": "a", "page": "no"}
    assert stalled["for"] == alerts(PLAIN)["PenstockLoopStalled"]["for"]


def test_runbooks_are_below_the_base_url_by_the_alerts_names() -> None:
    for name, alert in alerts(groups(runbookBaseUrl="https://runbooks.example/penstock/")).items():
        plain = alerts(PLAIN)[name]["annotations"]
        url = f"https://runbooks.example/penstock/{name}"
        assert alert["annotations"] == {**plain, "runbook_url": url}
