"""The cases of `kubectl penstock simulate`: the pool as the operator has it in force, under the policies that select it."""

from typing import Any

from penstock_kubectl.pool_context import PoolContext, policy_object, pool_object
from penstock_kubectl.simulate.cases import PolicyCase, Scheduled, WhatIfRequest, case
from tests.unit.kubectl.stage import Object, policy, pool

NIGHT = {"name": "night", "cron": "0 2 * * *", "durationMinutes": 60, "minReplicas": 4}


def subject(given: Object, *policies: Object) -> PoolContext:
    labels = {"tier": "prod"}
    return PoolContext(pool_object(given), labels, tuple(map(policy_object, policies)))


def simulated(given: Object, *policies: Object) -> PolicyCase:
    known = subject(given, *policies)
    return case("as it is", known, known.policies, WhatIfRequest(None, began=0.0))


def test_only_schedules_of_policies_that_select_the_pool_keep_it_from_zero() -> None:
    scaling: Any = {"mode": "Auto", "minReplicas": 0, "maxReplicas": 6}
    given = pool(routing={"mode": "Gateway"}, scaling=scaling)
    others = {"namespaceSelector": {"matchLabels": {"tier": "test"}}}
    for selector, least in ((others, 0), ({}, 1)):
        known = simulated(given, policy("nights", schedules=[NIGHT], **selector))
        assert known.effective.law.min_replicas == least
        assert isinstance(known.law._law, Scheduled) is (least == 1)
