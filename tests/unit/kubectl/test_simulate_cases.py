"""The cases of `kubectl penstock simulate`: the pool as the operator has it in force, and under policies of a file."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_api.pod_contract import Discipline
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.pool_context import PoolContext, policy_object, pool_object
from penstock_kubectl.simulate.cases import PolicyCase, Scheduled, WhatIfRequest, as_it_is, case
from penstock_kubectl.simulate.command import read_policies
from tests.unit.kubectl.stage import Object, policy, pool

NIGHT = {"name": "night", "cron": "0 2 * * *", "durationMinutes": 60, "minReplicas": 4}


def subject(given: Object, *policies: Object) -> PoolContext:
    labels = {"tier": "prod"}
    return PoolContext(pool_object(given), labels, tuple(map(policy_object, policies)))


def simulated(given: Object, *policies: Object) -> PolicyCase:
    return as_it_is(subject(given, *policies), WhatIfRequest(None, began=0.0))


def test_only_schedules_of_policies_that_select_the_pool_keep_it_from_zero() -> None:
    scaling: Any = {"mode": "Auto", "minReplicas": 0, "maxReplicas": 6}
    given = pool(routing={"mode": "Gateway"}, scaling=scaling)
    others = {"namespaceSelector": {"matchLabels": {"tier": "test"}}}
    for selector, least in ((others, 0), ({}, 1)):
        known = simulated(given, policy("nights", schedules=[NIGHT], **selector))
        assert known.effective.law.min_replicas == least
        assert isinstance(vars(known.law)["_law"], Scheduled) is (least == 1)


def reported(given: Object, *fields: tuple[str, str, str]) -> Object:
    """Return a pool whose status has these fields, values and origins."""
    listed = [{"field": field, "value": value, "origin": origin} for field, value, origin in fields]
    return {**given, "status": {**given["status"], "effective": listed}}


def test_a_pool_as_it_is_has_the_values_that_a_tie_keeps() -> None:
    tied = [policy(name, defaults={"scaling": {"maxReplicas": most}}) for name, most in (("a", 3), ("b", 5))]  # fmt: skip
    given = reported(pool(scaling={"mode": "Auto"}), ("scaling.maxReplicas", "4", "Kept"))
    assert simulated(given, *tied).effective.law.max_replicas == 4
    known = subject(given, *tied)
    settled = [tied[0], policy("b", defaults={"scaling": {"maxReplicas": 3}})]
    proposed = tuple(map(policy_object, settled))
    other = case("with b", known, proposed, WhatIfRequest(None, began=0.0))
    assert other.effective.law.max_replicas == 3


def test_a_pool_as_it_is_has_the_values_of_a_rollback() -> None:
    scaling = {"mode": "Auto", "maxReplicas": 6, "gpuUtilization": {"highPercent": 99}}
    given = reported(
        pool(scaling=scaling),
        ("scaling.maxReplicas", "4", "Rollback"),
        ("scaling.gpuUtilization.highPercent", "90", "Rollback"),
        ("objectives.RequestLatency", "700 ms for 99.9 %", "Rollback"),
        ("batching.discipline", "ShortestJobFirst", "Rollback"),
        ("scaling.minReplicas", "2", "Spec"),
    )
    always = {**NIGHT, "cron": "* * * * *", "minReplicas": 5}
    known = simulated(given, policy("always", schedules=[always]))
    law = known.effective.law
    assert (law.min_replicas, law.max_replicas, law.guards.high_percent) == (1, 4, None)
    assert law.objective_milliseconds == 700
    assert law.late.request == pytest.approx(0.001)
    assert known.effective.discipline is Discipline.SHORTEST_JOB_FIRST
    assert known.floor(60.0) == 4
    other = case("with a", known.subject, (), WhatIfRequest(None, began=0.0))
    assert (other.effective.law.max_replicas, other.effective.law.guards.high_percent) == (6, 99)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"spec": {"bound": {"replicas": {"max": 1}}}}, "spec.bound is not a field"),
        ({"spec": {"defaults": {"batching": {"sizes": {"max": 8}}}}}, "spec.defaults.batching.sizes is"),
        ({"spec": {"schedules": [NIGHT, {**NIGHT, "name": "b", "zone": "UTC"}]}}, "spec.schedules[1].zone is"),
        ({"spec": {"pool_selector": {}}}, "spec.pool_selector is not a field"),
        ({"specs": {}}, "specs is not a field"),
        ({"spec": {"poolSelector": {}, "bounds": {"replicas": {"max": 1}}}}, "poolSelector cannot be combined with spec.bounds"),
        ({"spec": {"poolSelector": {}, "gpuBudgets": [{"resourceName": "nvidia.com/gpu", "count": 1}]}}, "with spec.gpuBudgets"),
        ({"spec": {"bounds": {"replicas": {"max": 0}}}}, "bounds.replicas.max"),
    ],
)  # fmt: skip
def test_a_proposed_policy_that_the_api_server_rejects_is_refused(
    tmp_path: Path, given: Object, said: str
) -> None:
    file = tmp_path / "proposed.yaml"
    file.write_text(yaml.safe_dump({**policy("mine"), **given}))
    with pytest.raises(NotEnoughData, match=re.escape(said)):
        read_policies(file)


def test_a_proposed_policy_may_have_every_field_of_its_kind(tmp_path: Path) -> None:
    file = tmp_path / "proposed.yaml"
    selectors = {"poolSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": None}
    whole = policy("mine", schedules=[NIGHT], **selectors)
    file.write_text(yaml.safe_dump({**whole, "status": {"matchedPools": 1}}))
    (read,) = read_policies(file)
    assert read.spec.pool_selector is not None
