"""A policy's candidate in shadow: its decision is recorded, compared with the real one, and never applied."""

from dataclasses import replace
from typing import Any

from penstock_api.types.status import CandidateDecision
from penstock_operator.act.status import worth_writing
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning.pool_draft import PassContext, draft
from penstock_operator.observed import PolicyObject
from penstock_operator.telemetry import policy_metrics
from penstock_operator.telemetry.metrics import exposition
from tests.unit.operator.decide.world import CONFIG, World, known, policy, pool, settled


def trying(**candidate: Any) -> PolicyObject:
    return policy("prod", candidate=candidate)


def auto(*policies: PolicyObject, **scaling: Any) -> World:
    return settled(pool=pool(scaling={"mode": "Auto", **scaling}), policies=policies)


def tried(plan: PoolPlan) -> CandidateDecision:
    return known(plan.status.candidate)


def test_without_a_candidate_there_is_no_shadow() -> None:
    assert auto(policy("prod")).run().status.candidate is None


def test_the_status_compares_the_candidate_with_the_actual_count() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    decision = tried(world.run())
    assert (decision.policy, decision.replicas, decision.actual_replicas) == ("prod", 3, 1)
    assert decision.replicas_term == "SignalsAbsent"  # its law has no signals yet either


def test_a_candidate_changes_no_write_of_the_pool() -> None:
    plain, other = auto(), auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    for _ in range(5):
        before, after = plain.settle(), other.settle()
        assert (after.writes, after.pushes, after.limits) == (
            before.writes,
            before.pushes,
            before.limits,
        )
        assert after.status.desired_replicas == before.status.desired_replicas
    assert other.deployment["spec"]["replicas"] == 1


def test_a_candidates_bounds_replace_the_policys_own() -> None:
    stored = policy(
        "prod",
        defaults={"scaling": {"minReplicas": 4}},
        bounds={"replicas": {"max": 2}},
        candidate={"bounds": {"replicas": {"max": 3}}},
    )
    decision = tried(auto(stored).run())
    assert (decision.replicas, decision.actual_replicas) == (3, 2)


def test_the_pools_own_spec_overrides_the_candidate_too() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}), minReplicas=2)
    assert tried(world.run()).replicas == 2


def test_replica_hours_of_both_count_from_the_candidates_first_tick() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    for _ in range(720):
        world.now += 5
        plan = world.run()
    decision = tried(plan)
    assert float(decision.replica_hours) == 3.0 + 0.01  # and the two ticks of the setup
    assert float(decision.actual_replica_hours) == 1.0


def test_an_edited_candidate_starts_new_counts() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    world.now += 60
    world.run()
    edited = trying(defaults={"scaling": {"minReplicas": 5}})
    world.policies = (edited.__class__(edited.uid, "prod", 2, edited.spec, edited.status),)
    decision = tried(world.run())
    assert (decision.generation, decision.replicas, decision.replica_hours) == (2, 5, "0.00")


def test_a_policy_that_is_created_again_starts_new_counts() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    world.now += 60
    world.run()
    world.policies = (replace(world.policies[0], uid="uid-again"),)
    assert tried(world.run()).replica_hours == "0.00"


def test_a_value_that_stays_through_a_tie_stays_for_the_candidate_too() -> None:
    first = policy("first", defaults={"scaling": {"minReplicas": 3}})
    world = auto(first)
    trial = policy(
        "second",
        defaults={"scaling": {"minReplicas": 5}},
        candidate={"bounds": {"replicas": {"max": 9}}},
    )
    world.policies = (first, trial)
    drafted = draft(world.view(), None, PassContext(world.observed(), CONFIG, {}, world.now))
    assert drafted.effective.law.min_replicas == 3
    assert known(drafted.candidate).proposal.effective.law.min_replicas == 3


def test_of_several_candidates_the_one_with_the_highest_priority_runs() -> None:
    low = policy("low", priority=1, candidate={"defaults": {"scaling": {"minReplicas": 2}}})
    high = policy("high", priority=2, candidate={"defaults": {"scaling": {"minReplicas": 3}}})
    assert tried(auto(low, high).run()).policy == "high"


def test_a_candidate_may_use_another_law() -> None:
    world = auto(trying(defaults={"scaling": {"algorithm": "UtilizationBand"}}))
    assert tried(world.run()).replicas_term


def test_hours_alone_are_no_reason_for_a_write_a_tick() -> None:
    stored = {"candidate": {"replicas": 3, "replicaHours": "4.00", "actualReplicaHours": "2.00"}}
    later = {"candidate": {"replicas": 3, "replicaHours": "4.20", "actualReplicaHours": "2.10"}}
    other = {"candidate": {"replicas": 4, "replicaHours": "4.20", "actualReplicaHours": "2.10"}}
    assert not worth_writing(stored, later, 0.0, 1e6)
    assert worth_writing(stored, other, 0.0, 1.0)


def test_metrics_show_the_candidate_until_it_is_tried_no_more() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    policy_metrics.record_plan(world.whole_plan())
    series = (
        'penstock_operator_candidate_replicas{namespace="team-a",policy="prod",pool="chat"} 3.0'
    )
    assert series in exposition().decode()
    world.policies = ()
    policy_metrics.record_plan(world.whole_plan())
    assert "candidate_replicas{" not in exposition().decode()
