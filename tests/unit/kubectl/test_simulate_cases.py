"""The cases of `kubectl penstock simulate`: the pool as the operator has it in force, and under policies of a file."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_api import names
from penstock_api.pod_contract import Discipline
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.explain import read
from penstock_kubectl.pool_context import (
    PoolContext,
    policy_object,
    policy_record,
    pool_object,
    with_policies,
)
from penstock_kubectl.simulate.cases import PolicyCase, Scheduled, WhatIfRequest, as_it_is, case
from penstock_kubectl.simulate.command import read_policies
from tests.unit.kubectl.stage import Object, Stage, kubeconfig, policy, pool

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


def most(name: str, replicas: int) -> Object:
    return policy(name, defaults={"scaling": {"maxReplicas": replicas}})


def recorded(text: str, owner: str = "uid-chat") -> Object:
    """Return the ConfigMap of the pool with this record of policy defaults."""
    owners = [{"uid": owner, "controller": True}]
    annotations = {names.ANNOTATION_POLICY_DEFAULTS: text}
    return {"metadata": {"annotations": annotations, "ownerReferences": owners}}


@pytest.mark.parametrize("has_record", [True, False])
def test_a_proposed_policy_that_makes_a_tie_leaves_the_value_in_force(has_record: bool) -> None:
    given = reported(pool(scaling={"mode": "Auto"}), ("scaling.maxReplicas", "20", "PolicyDefault a"))  # fmt: skip
    known = subject(given, most("a", 20))
    if has_record:
        record = policy_record(recorded('{"scaling.maxReplicas": 20}'), known.pool)
        unreported = pool_object({**given, "status": {}})
        known = replace(known, pool=unreported, recorded=record)
    proposed = with_policies(known, [policy_object(most("b", 10))])
    other = case("with b", known, proposed, WhatIfRequest(None, began=0.0))
    assert other.effective.law.max_replicas == 20


@pytest.mark.parametrize("record", [{"scaling.maxReplicas": 20}, None])
def test_a_bound_applies_to_the_value_that_a_tie_keeps(record: dict[str, int] | None) -> None:
    given = reported(pool(scaling={"mode": "Auto"}), ("scaling.maxReplicas", "12", "Bound c"))
    bound = policy("c", bounds={"replicas": {"max": 12}})
    known = replace(subject(given, most("a", 20), most("b", 10), bound), recorded=record)
    law = as_it_is(known, WhatIfRequest(None, began=0.0)).effective.law
    assert law.max_replicas == 12


def test_the_record_of_policy_defaults_is_that_of_the_pools_own_config_map(tmp_path: Path) -> None:
    stage = Stage(pool(), [], [])
    path = "/api/v1/namespaces/team-a/configmaps/chat-penstock"
    cases = [
        (
            recorded('{"batching.maxQueueDepth": 20, "scaling.maxReplicas": 0}'),
            200,
            {"batching.maxQueueDepth": 20},
        ),
        (recorded("nonsense"), 200, {}),
        (recorded('{"batching.maxQueueDepth": 20}', owner="another"), 200, None),
        (recorded('{"batching.maxQueueDepth": 20}'), 403, None),
        (None, 404, None),
    ]
    for config_map, status, expected in cases:
        stage.objects.pop(path, None)
        if config_map is not None:
            stage.objects[path] = config_map
        stage.failing = {path: 403} if status == 403 else {}
        with kubeconfig(stage, tmp_path) as file:
            known = read(ClusterClient(None, str(file)), "team-a", "chat")
        assert (known.recorded, known.unread) == (expected, "")


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
