"""`docs/reference/conditions.md` names every reason that a condition or an Event of this operator can have."""

import ast
import importlib
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
    "MetricsAvailable", "Accepted", "BudgetExhausted", "Conflicted", "DevicesUsed", "Routed", "SplitByCapacity",
}  # fmt: skip
OTHER_WORDS = {
    "True",
    "Unknown",
    "Cluster",
    "GpuBudget",
    "Deployment",
    "ReplicaFailure",
    "NetworkPolicy",
    *TYPES,
}
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
        "ready.py",
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
    assert sorted(documented - words() - TYPES) == []


def resolved(module: str, node: ast.expr) -> str | None:
    """Return the string that a literal or a name of the module stands for; None: it is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        value = getattr(importlib.import_module(module), node.id, None)
        return value if isinstance(value, str) else None
    return None


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """Return an argument of a call, given by position or by name."""
    if len(call.args) > position:
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == keyword), None)


def made() -> set[tuple[str, str]]:
    """Return type and reason of every call of `condition` that spells both out."""
    pairs = set()
    for path, tree in makers():
        module = ".".join(path.relative_to(OPERATOR.parent).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "condition":
                given = argument(node, 0, "type"), argument(node, 2, "reason")
                kind, reason = (resolved(module, each) if each else None for each in given)
                if kind and reason:
                    pairs.add((kind, reason))
    return pairs


def sections() -> dict[str, str]:
    """Return the text of the page below each of its headings."""
    parts = re.split(r"^##+ (.*)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_reason_is_documented_under_its_condition() -> None:
    by_heading = sections()
    pairs = {pair for pair in made() if pair[0] not in ("Stalled", "Reconciling")}
    assert {
        ("Ready", "ModelLoading"),
        ("Ready", "ScaledToZero"),
        ("Scaling", "ReplicasContested"),
    } <= pairs
    assert len(pairs) > 35
    missing = [
        f"{kind}: {reason}"
        for kind, reason in sorted(pairs)
        if f"`{reason}`" not in by_heading.get(kind, by_heading["A policy's conditions"])
    ]
    assert missing == []
