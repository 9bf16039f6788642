"""Each alert has a runbook, and the flow for a stuck pool has each reason for which a pool is stuck."""

import re
from typing import Any

import pytest
import yaml
from rich.text import Text

from penstock_kubectl.explain_view import VERDICTS
from penstock_operator.decide.status.conditions import problems
from tests.unit.api.test_conditions_page import made
from tests.unit.docs.test_site import DOCS, ROOT
from tests.unit.operator.telemetry.test_logs import calls

RULES = ROOT / "charts" / "penstock" / "rules" / "penstock.yaml"
RUNBOOKS = DOCS / "how-to" / "runbooks"
FLOW = (DOCS / "how-to" / "pool-is-stuck.md").read_text(encoding="utf-8")
NOT_STUCK = {"Settled", "Blocked", "ReplicasUnavailable", "ModelLoading", "ScaledToZero"}
"""Reasons of Ready=False and Progressing=False for which nothing is stuck, or that refer to another condition."""


def alerts() -> dict[str, Any]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    pages = {page.stem for page in RUNBOOKS.glob("*.md")} - {"index"}
    assert pages == alerts().keys()


@pytest.mark.parametrize("alert", alerts())
def test_a_runbook_is_titled_by_its_alert_and_listed_with_its_severity(alert: str) -> None:
    page = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {alert}\n")
    row = f"| [{alert}]({alert}.md) | {alerts()[alert]['labels']['severity']} |"
    assert row in (RUNBOOKS / "index.md").read_text(encoding="utf-8")


def test_the_runbook_of_a_fast_burn_quotes_the_verdict_that_explain_prints() -> None:
    page = (RUNBOOKS / "PenstockObjectiveBurnFast.md").read_text(encoding="utf-8")
    assert f"`{Text.from_markup(VERDICTS['MissesObjective'])}`" in page


def test_the_filter_of_refused_writes_shows_the_lines_about_them() -> None:
    page = (RUNBOOKS / "PenstockWritesRefused.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'test\("(.+?)"\)', page)
    acting = ("executor.py", "background.py", "events.py", "passes.py", "reporter.py")
    refused = re.compile(r"reject|stored|writ|back-off")
    lines = [message for message, _ in calls(*acting) if refused.search(message)]
    assert len(lines) > 7
    assert [message for message in lines if not re.search(shown, message)] == []


def stuck() -> set[str]:
    """Return the reasons of a pool that is stuck: problems of pods, and what code spells out."""
    spelled = {reason for kind, reason in made() if kind in ("Ready", "Progressing", "Stalled")}
    serving = {
        "AllReplicasReady", "SomeReplicasReady", "IdleAtZero", "RollingOut", "Scaling", "Starting",
    }  # fmt: skip
    return (spelled | set(problems._REMEDIES)) - NOT_STUCK - serving


def test_the_flow_has_each_reason_for_which_a_pool_is_stuck() -> None:
    section = FLOW.partition("## B. Stalled")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    listed = {reason for cell in rows for reason in re.findall(r"`(\w+)`", cell)}
    assert len(listed) > 20
    assert sorted(stuck() - listed) == []
    assert sorted(listed - stuck() - {"PodFailed", "ReplicasContested", "SpecNotUnderstood"}) == []  # fmt: skip
