"""`kubectl penstock explain` lists the conditions for which docs/reference/conditions.md has a remedy."""

import re
from pathlib import Path

import pytest

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_kubectl.explain_view import healthy

DOCUMENTED = Path(__file__).parents[3] / "docs/reference/conditions.md"
SEPARATE = ("Progressing", "Stalled and Reconciling", "A policy's conditions")
"""Sections that are judged by other rules."""
OPTIONAL = ("SomeReplicasReady", "ReadFromPods")
"""Reasons with a remedy of pools that serve well: other conditions have what fails, and Prometheus may be absent on purpose."""


def documented() -> list[tuple[Condition, bool]]:
    """Return each condition of a pool, and whether it has no remedy."""
    text = DOCUMENTED.read_text(encoding="utf-8").split("\n## ")[0]
    rows = list[tuple[Condition, bool]]()
    for section in text.split("\n### ")[1:]:
        kind, _, table = section.partition("\n")
        if kind in SEPARATE:
            continue
        for row in re.findall(r"^\| `.*$", table, re.MULTILINE):
            reasons, meaning, remedy = (cell.strip() for cell in row.strip("|").split(" | "))
            fine = not remedy and not meaning.startswith("as under")
            for names, statuses in re.findall(r"((?:`\w+`,? ?)+)\((.*?)\)", reasons):
                for reason in re.findall(r"\w+", names):
                    first = ConditionStatus(statuses.split(" or ")[0])
                    rows.append((condition(kind, first, reason, ""), fine or reason in OPTIONAL))
    return rows


@pytest.mark.parametrize(("given", "fine"), documented(), ids=lambda each: getattr(each, "reason", ""))  # fmt: skip
def test_a_condition_is_shown_if_it_has_a_remedy(given: Condition, fine: bool) -> None:
    assert healthy(given) is fine


def test_the_conditions_are_read_from_the_page() -> None:
    assert len(documented()) > 50
