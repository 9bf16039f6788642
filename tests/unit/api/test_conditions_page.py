"""`docs/reference/conditions.md` names every reason that a condition or an Event of this operator can have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.api.crds import ROOT

OPERATOR = ROOT / "operator" / "penstock_operator"
PAGE = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")
CALLS = {"condition", "EventNote"}
REASON = re.compile(r"^[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*$|^OOMKilled$")
TYPES = {
    "Ready", "Progressing", "UpToDate", "LimitsApplied", "PolicyApplied", "BudgetLimited",
    "MetricsAvailable", "Accepted", "BudgetExhausted", "Conflicted", "DevicesUsed",
}  # fmt: skip
OTHER_WORDS = {"True", "Unknown", "Cluster", "GpuBudget", "Deployment", "NetworkPolicy", *TYPES}
"""Other CamelCase words of the modules that create conditions: statuses, types, kinds, sources of bounds."""
KUBERNETES = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "ImageInspectError", "RegistryUnavailable", "FailedMount", "FailedAttachVolume",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}  # fmt: skip
"""Reasons of the kubelet, which the operator maps to its own."""


def makers() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules that make a condition or an Event, and those that name reasons for them."""
    for path in sorted(OPERATOR.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {
            node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
        }
        if called & CALLS or path.parent.name == "conditions":
            yield path, tree


def words() -> set[str]:
    """Return every CamelCase word that those modules write: reasons, unless they are something else."""
    literals = {
        node.value
        for _, tree in makers()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and REASON.match(node.value)
    }
    return literals - OTHER_WORDS - KUBERNETES


def test_the_modules_that_make_conditions_are_found() -> None:
    modules = {path.name for path, _ in makers()}
    assert {
        "readiness.py",
        "conditions.py",
        "replica_conflict.py",
        "policies.py",
        "reporter.py",
    } <= modules
    assert {"NameConflict", "ReplicasContested", "ScaledUp", "SpecNotUnderstood"} <= words()
    assert {"ModelLoading", "Unschedulable"} <= words()


def test_every_reason_is_documented() -> None:
    documented = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE))
    assert sorted(words() - documented) == []


def test_every_documented_reason_is_in_the_source() -> None:
    first = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith("| ")]
    documented = {reason for cell in first for reason in re.findall(r"`([A-Z][A-Za-z]+)`", cell)}
    assert sorted(documented - words() - {"ReplicaFailure"} - TYPES) == []
