"""`docs/operations.md` names every reason that a condition or an Event of this operator can have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.api.crds import ROOT

OPERATOR = ROOT / "operator" / "penstock_operator"
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
CALLS = {"condition", "EventNote"}
REASON = re.compile(r"^[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*$|^OOMKilled$")
TYPES = {
    "Ready", "Progressing", "UpToDate", "LimitsApplied", "PolicyApplied", "BudgetLimited",
    "MetricsAvailable", "Accepted", "BudgetExhausted", "Conflicted", "DevicesUsed",
}  # fmt: skip
OTHER_WORDS = {"True", "Unknown", "Cluster", "GpuBudget", "Deployment", "NetworkPolicy", *TYPES}
"""What else is written in CamelCase where conditions are made: statuses, types, kinds, who bounds."""
KUBERNETES = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "ImageInspectError", "RegistryUnavailable", "FailedMount", "FailedAttachVolume",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}  # fmt: skip
"""The kubelet's own words, which `problems.py` turns into ours."""


def makers() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules that make a condition or an Event, and those that name reasons for them."""
    for path in sorted(OPERATOR.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {
            one.func.id if isinstance(one.func, ast.Name) else getattr(one.func, "attr", "")
            for one in ast.walk(tree)
            if isinstance(one, ast.Call)
        }
        if called & CALLS or path.parent.name == "conditions":
            yield path, tree


def words() -> set[str]:
    """Return every CamelCase word that those modules write: reasons, unless they are something else."""
    found = {
        one.value
        for _, tree in makers()
        for one in ast.walk(tree)
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and REASON.match(one.value)
    }
    return found - OTHER_WORDS - KUBERNETES


def test_the_modules_that_make_conditions_are_found() -> None:
    told = {path.name for path, _ in makers()}
    assert {
        "readiness.py",
        "conditions.py",
        "replica_conflict.py",
        "policies.py",
        "reporter.py",
    } <= told
    assert {"NameConflict", "ReplicasContested", "ScaledUp", "SpecNotUnderstood"} <= words()
    assert {"ModelLoading", "Unschedulable"} <= words()


def test_every_reason_is_told_with_what_it_means() -> None:
    told = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE))
    assert sorted(words() - told) == []


def test_no_reason_is_told_that_nobody_says() -> None:
    tables = PAGE.split("## The conditions of a pool")[1].split("## Faults")[0]
    first = [row.split("|")[1] for row in tables.splitlines() if row.startswith("| ")]
    told = {one for cell in first for one in re.findall(r"`([A-Z][A-Za-z]+)`", cell)}
    assert sorted(told - words() - {"ReplicaFailure"} - TYPES) == []
