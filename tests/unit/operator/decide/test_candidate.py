"""A candidate decides in shadow: it is recorded beside the real decision, compared with it, and never acted on."""

from typing import Any

from penstock_api.types.status import CandidateDecision
from penstock_operator.act.status import worth_writing
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.observed import PolicyObject
from penstock_operator.telemetry import policy_metrics
from penstock_operator.telemetry.metrics import exposition
from tests.unit.operator.decide.world import World, known, policy, pool, settled


def trying(**candidate: Any) -> PolicyObject:
    return policy("prod", candidate=candidate)


def auto(*policies: PolicyObject, **scaling: Any) -> World:
    return settled(pool=pool(scaling={"mode": "Auto", **scaling}), policies=policies)


def tried(plan: PoolPlan) -> CandidateDecision:
    return known(plan.status.candidate)


def test_without_a_candidate_nothing_is_tried() -> None:
    assert auto(policy("prod")).run().status.candidate is None


def test_what_the_candidate_would_do_is_said_beside_what_is_done() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    said = tried(world.run())
    assert (said.policy, said.replicas, said.actual_replicas) == ("prod", 3, 1)
    assert said.replicas_term == "SignalsAbsent"  # its law too sees nothing yet


def test_nothing_of_a_candidate_is_ever_written_to_the_pool() -> None:
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


def test_a_candidates_bounds_stand_in_for_the_policys_own() -> None:
    held = policy(
        "prod",
        defaults={"scaling": {"minReplicas": 4}},
        bounds={"replicas": {"max": 2}},
        candidate={"bounds": {"replicas": {"max": 3}}},
    )
    said = tried(auto(held).run())
    assert (said.replicas, said.actual_replicas) == (3, 2)


def test_what_the_pools_own_spec_says_counts_for_the_candidate_too() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}), minReplicas=2)
    assert tried(world.run()).replicas == 2


def test_hours_are_counted_for_both_since_the_candidate_was_met() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    for _ in range(720):
        world.now += 5
        plan = world.run()
    said = tried(plan)
    assert float(said.replica_hours) == 3.0 + 0.01  # and the two ticks while the pool settled
    assert float(said.actual_replica_hours) == 1.0


def test_an_edited_candidate_is_counted_anew() -> None:
    world = auto(trying(defaults={"scaling": {"minReplicas": 3}}))
    world.now += 60
    world.run()
    edited = trying(defaults={"scaling": {"minReplicas": 5}})
    world.policies = (edited.__class__(edited.uid, "prod", 2, edited.spec, edited.status),)
    said = tried(world.run())
    assert (said.generation, said.replicas, said.replica_hours) == (2, 5, "0.00")


def test_of_several_candidates_the_one_of_the_highest_priority_is_tried() -> None:
    low = policy("low", priority=1, candidate={"defaults": {"scaling": {"minReplicas": 2}}})
    high = policy("high", priority=2, candidate={"defaults": {"scaling": {"minReplicas": 3}}})
    assert tried(auto(low, high).run()).policy == "high"


def test_a_candidate_may_try_another_law() -> None:
    world = auto(trying(defaults={"scaling": {"algorithm": "UtilizationBand"}}))
    assert tried(world.run()).replicas_term


def test_hours_alone_are_no_reason_for_a_write_a_tick() -> None:
    held = {"candidate": {"replicas": 3, "replicaHours": "4.00", "actualReplicaHours": "2.00"}}
    later = {"candidate": {"replicas": 3, "replicaHours": "4.20", "actualReplicaHours": "2.10"}}
    other = {"candidate": {"replicas": 4, "replicaHours": "4.20", "actualReplicaHours": "2.10"}}
    assert not worth_writing(held, later, 0.0, 1e6)
    assert worth_writing(held, other, 0.0, 1.0)


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
