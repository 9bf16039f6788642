"""The generated parts of docs/ are what the code says now, and hand-written lists forget nothing of it."""

import re
from pathlib import Path

import pytest

from penstock_api import names
from penstock_operator.decide.budgets.requests import PLACING
from penstock_runtime.config.environment import _READERS
from tests.support.pages.__main__ import main, stale
from tests.support.pages.blocks import DOCS
from tests.support.pages.tables import fill

REFERENCE = DOCS / "reference"
OWN = {
    "PENSTOCK_MODEL", "PENSTOCK_POOL", "PENSTOCK_NAMESPACE", "PENSTOCK_POD_NAME", "PENSTOCK_POD_UID",
    "PENSTOCK_MODEL_FOLDER", "PENSTOCK_FETCHED_FOLDER", "PENSTOCK_COMPILED_FOLDER", "PENSTOCK_SETTINGS_FOLDER", "PENSTOCK_TERMINATION_LOG",
    "PENSTOCK_HOST", "PENSTOCK_CLIENT_PORT", "PENSTOCK_CLUSTER_PORT", "PENSTOCK_TLS_FOLDER",
    "PENSTOCK_DRAIN_DEADLINE_SECONDS", "PENSTOCK_PEER_URL", "PENSTOCK_RELAY_SECONDS", "PENSTOCK_API_KEYS_FILE", "PENSTOCK_INSECURE_CONTROL",
}  # fmt: skip
"""Variables that the operator sets, or that only tests use."""


def text(*pages: str) -> str:
    return "".join((REFERENCE / page).read_text(encoding="utf-8") for page in pages)


def test_the_generated_parts_are_not_stale() -> None:
    assert stale() == []
    assert main(["--check"]) == 0


def test_a_table_is_filled_between_its_marks_and_an_unknown_one_is_an_error() -> None:
    page = fill("before\n<!-- table: alerts -->\nobsolete\n<!-- end -->\nafter\n")
    assert "obsolete" not in page
    assert "| `PenstockNoLeader` | critical |" in page
    assert page.startswith("before\n<!-- table: alerts -->\n| Alert ")
    assert page.endswith("<!-- end -->\nafter\n")
    with pytest.raises(KeyError, match="none"):
        fill("<!-- table: none -->\n<!-- end -->\n")


def test_every_variable_of_the_runtime_is_documented() -> None:
    documented = set(re.findall(r"PENSTOCK_\w+", text("settings.md", "generation.md")))
    assert sorted(_READERS.keys() - OWN - documented) == []
    assert sorted(documented - _READERS.keys()) == []


def test_every_metric_of_a_pod_is_documented() -> None:
    page = text("metrics.md", "generation.md")
    constants = {
        value
        for name, value in vars(names).items()
        if name.startswith("METRIC_") and isinstance(value, str)
    }
    missing = [value for value in constants if f"`{value}" not in page]
    assert len(constants) > 20
    assert sorted(missing) == []


def test_the_pages_with_generated_tables_are_the_expected_ones() -> None:
    marked = [page for page in sorted(REFERENCE.glob("*.md")) if "<!-- table: " in page.read_text()]
    assert [Path(page).stem for page in marked] == [
        "alerts",
        "chart-values",
        "http",
        "metrics",
        "plugin",
    ]


def test_the_same_nodes_are_those_of_every_field_that_selects_nodes() -> None:
    (sentence,) = re.findall(
        r"select the same nodes, which means equal ([^.]*)", text("policies.md")
    )
    assert set(re.findall(r"`(\w+)`", sentence)) == set(PLACING)
