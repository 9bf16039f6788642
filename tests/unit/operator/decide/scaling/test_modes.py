"""The modes of both valves: what is done, what is said, and what never collapses (docs/design/design.md#modes)."""

from dataclasses import replace

import pytest

from penstock_api.hold import StartPart
from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_api.types.batching import BatchingMode
from penstock_api.types.scaling import ScalingAlgorithm, ScalingMode
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.scaling.decision import ScalingOutcome, law_input
from penstock_operator.decide.scaling.report.status import scaling_status
from penstock_operator.observed import GatewayView, PoolSignals, SignalSource
from tests.unit.operator.decide.scaling.views import Pool, deployment
from tests.unit.operator.decide.scaling.world import SETTINGS


def said(outcome: ScalingOutcome, type: str) -> tuple[str, str]:
    """Return a condition's (status, reason)."""
    by_type = {condition.type: condition for condition in outcome.conditions}[type]
    return by_type.status.value, by_type.reason


def published(cap: int) -> LimitsUpdate:
    return LimitsUpdate(
        max_batch_size=cap,
        max_queue_depth=100,
        max_queue_delay_milliseconds=5,
        discipline=Discipline.FIRST_IN_FIRST_OUT,
        generation=7,
    )


def busy_at_eight() -> Pool:
    """A pool in Auto that has scaled from 1 to 8."""
    pool = Pool(waiting=100.0, rows_per_second=90.0)
    pool.tick(2)
    assert pool.live == 8
    pool.waiting = 0.0
    pool.tick(4)
    return pool


def test_auto_acts_on_both_valves_and_says_so() -> None:
    pool = Pool(waiting=10.0)
    first = pool.tick()
    assert (first.cap, first.replicas) == (1, 3)
    assert first.acted == "Acted"
    assert said(first, "Scaling") == ("True", "Acting")
    assert said(first, "MetricsAvailable") == ("True", "FromPrometheus")
    assert first.last_decision is not None
    assert first.last_decision.replicas_term == "QueueDepth"


def test_auto_hold_auto_at_eight_collapses_nothing() -> None:
    pool = busy_at_eight()
    outcome = pool.edit(scaling=ScalingMode.HOLD, waiting=0.0)
    assert outcome.replicas == 8
    assert said(outcome, "Scaling") == ("False", "Held")
    pool.tick(100)
    assert {outcome_.replicas for outcome_ in pool.outcomes[-100:]} == {8}
    back = pool.edit(scaling=ScalingMode.AUTO)
    assert back.replicas in {7, 8}
    assert said(back, "Scaling") == ("True", "Acting")


def test_hold_freezes_within_a_tick_while_the_queue_grows() -> None:
    pool = Pool()
    pool.tick(3)
    outcome = pool.edit(scaling=ScalingMode.HOLD, waiting=500.0)
    assert outcome.replicas == 1
    assert outcome.desired_replicas == 1
    assert outcome.acted == "Held"
    assert outcome.last_decision is not None
    assert (outcome.last_decision.replicas, outcome.last_decision.acted) == (8, "Held")


def test_auto_to_manual_at_eight_takes_the_count_of_the_same_edit() -> None:
    pool = busy_at_eight()
    manual = pool.edit(scaling=ScalingMode.MANUAL, spec_replicas=8, waiting=0.0)
    assert (manual.replicas, manual.desired_replicas) == (8, 8)
    assert said(manual, "Scaling") == ("False", "Manual")
    pool.tick(200)
    assert pool.live == 8


def test_manual_means_what_spec_replicas_says_even_zero_or_above_max_replicas() -> None:
    assert Pool(scaling=ScalingMode.MANUAL, spec_replicas=20).tick().replicas == 20
    assert Pool(scaling=ScalingMode.MANUAL, spec_replicas=0, live=0).tick().replicas == 0


def test_in_manual_the_law_does_not_set_the_count() -> None:
    pool = Pool(scaling=ScalingMode.MANUAL, spec_replicas=2, live=2, waiting=500.0)
    pool.tick(3)
    assert pool.outcomes[-1].decision.replicas == 2
    assert pool.outcomes[-1].last_decision is None


def test_recommend_records_the_recommendation_and_keeps_spec_replicas() -> None:
    pool = Pool(scaling=ScalingMode.RECOMMEND, spec_replicas=2, live=2, waiting=9.0)
    pool.tick(2)
    last = pool.outcomes[-1]
    assert (last.replicas, last.desired_replicas) == (2, 5)
    assert said(last, "Scaling") == ("False", "Recommending")
    assert last.last_decision is not None
    assert last.last_decision.acted == "Recommended"


def test_leaving_manual_for_auto_starts_from_the_live_count_never_the_minimum() -> None:
    pool = Pool(scaling=ScalingMode.MANUAL, spec_replicas=6, live=6)
    pool.tick(3)
    assert pool.edit(scaling=ScalingMode.AUTO).replicas == 6


def test_a_policys_bound_wins_over_hold_and_says_why() -> None:
    pool = busy_at_eight()
    pool.edit(scaling=ScalingMode.HOLD)
    bounded = pool.edit(bound=4, law=replace(SETTINGS, max_replicas=4))
    assert bounded.replicas == 4
    assert [event.message for event in bounded.events] == [
        "Replicas 8 -> 4: a policy allows at most 4."
    ]


def test_hold_outlives_edits_of_min_and_max_replicas() -> None:
    pool = busy_at_eight()
    pool.edit(scaling=ScalingMode.HOLD)
    assert pool.edit(law=replace(SETTINGS, max_replicas=2)).replicas == 8
    assert pool.edit(law=replace(SETTINGS, min_replicas=8)).replicas == 8


def test_fixed_batching_publishes_size_max_at_once() -> None:
    pool = Pool(batching=BatchingMode.FIXED)
    assert pool.tick().cap == 64
    assert pool.edit(law=replace(SETTINGS, size_max=16)).cap == 16


def test_recommend_batching_freezes_the_cap_and_shows_the_wish() -> None:
    pool = Pool(
        batching=BatchingMode.RECOMMEND,
        scaling=ScalingMode.HOLD,
        law=replace(SETTINGS, objective_milliseconds=None),
        waiting=50.0,
        published=published(8),
    )
    pool.tick(20)
    last = pool.outcomes[-1]
    assert {outcome.cap for outcome in pool.outcomes} == {8}
    assert last.recommended_cap == 10
    assert pool.edit(law=replace(SETTINGS, size_max=4)).cap == 4, "the range of sizes holds at once"


def test_from_fixed_to_auto_the_cap_starts_where_it_is() -> None:
    pool = Pool(batching=BatchingMode.FIXED)
    pool.tick(3)
    assert pool.edit(batching=BatchingMode.AUTO).cap == 64


def test_a_restarted_operator_takes_the_live_count_and_the_published_cap() -> None:
    pool = Pool(live=5, published=published(12), spec_replicas=1)
    outcome = pool.tick()
    assert (outcome.cap, outcome.replicas) == (12, 5)
    assert outcome.events == ()
    pool.tick(11)
    assert pool.live == 5, "not before a full stabilisation"
    pool.tick(4)
    assert pool.live == 4, "the stabilisation began with the first full window"


def test_a_pool_unseen_for_long_is_a_pool_just_met() -> None:
    """Leadership lost and found: another leader may have scaled meanwhile."""
    pool = busy_at_eight()
    pool.now += 600
    pool.live = 3
    assert pool.tick().replicas == 3


def test_a_deployment_scaled_by_another_writer_is_reset() -> None:
    pool = busy_at_eight()
    pool.live = 2
    assert pool.tick().replicas == 8
    pool.edit(scaling=ScalingMode.HOLD)
    pool.live = 0
    assert pool.tick().replicas == 8


def test_a_deleted_deployment_comes_back_with_its_count() -> None:
    """kserve#3768: an update resets replicas to 1."""
    pool = busy_at_eight()
    pool.live = None
    assert pool.tick().replicas == 8
    pool.restart_operator()
    pool.live = None
    assert pool.tick().replicas == 8


@pytest.mark.parametrize(("wanted", "first"), [(1, 2), (3, 3), (50, 8)])
def test_a_new_pool_in_auto_starts_with_spec_replicas_inside_the_bounds(
    wanted: int, first: int
) -> None:
    pool = Pool(live=None, spec_replicas=wanted, law=replace(SETTINGS, min_replicas=2))
    assert pool.tick().replicas == first


def test_a_foreign_deployment_says_nothing_about_our_count() -> None:
    pool = Pool(spec_replicas=3)
    view = replace(
        pool.view(), children={("Deployment", "chat-penstock"): deployment(50, "someone-else")}
    )
    pool.view = lambda: view  # type: ignore[method-assign]
    assert pool.tick().replicas == 3


def test_a_scale_write_that_auto_ignores_is_one_event_and_stays_in_the_condition() -> None:
    pool = Pool(live=2, spec_replicas=2)
    pool.tick(2)
    ignored = pool.edit(spec_replicas=5)
    assert ignored.replicas == 2
    assert said(ignored, "Scaling") == ("True", "ReplicasIgnored")
    assert [event.reason for event in ignored.events] == ["ReplicasIgnored"]
    again = pool.tick()
    assert said(again, "Scaling") == ("True", "ReplicasIgnored")
    assert again.events == ()
    pool.restart_operator()
    restarted = pool.tick()
    assert said(restarted, "Scaling") == ("True", "ReplicasIgnored")
    assert restarted.events == ()
    assert said(pool.edit(scaling=ScalingMode.MANUAL), "Scaling") == ("False", "Manual")


def test_a_reverted_scale_write_clears_the_condition_and_the_next_one_is_reported() -> None:
    pool = Pool(live=2, spec_replicas=2)
    pool.tick(2)
    pool.edit(spec_replicas=5)
    undone = pool.edit(spec_replicas=2)
    assert said(undone, "Scaling") == ("True", "Acting")
    assert undone.events == ()
    for count in (5, 7):
        again = pool.edit(spec_replicas=count)
        assert said(again, "Scaling") == ("True", "ReplicasIgnored")
        assert [event.message for event in again.events] == [
            f"spec.replicas {count} is ignored while scaling.mode is Auto; the law sets the count."
        ]


def test_an_ignored_count_can_be_undone_after_the_operator_restarted() -> None:
    pool = Pool(live=2, spec_replicas=2)
    pool.tick(2)
    pool.edit(spec_replicas=5)
    pool.restart_operator()
    assert said(pool.tick(2), "Scaling") == ("True", "ReplicasIgnored")
    undone = pool.edit(spec_replicas=2)
    assert said(undone, "Scaling") == ("True", "Acting")
    assert undone.events == ()
    assert [event.reason for event in pool.edit(spec_replicas=5).events] == ["ReplicasIgnored"]


def test_setting_auto_and_a_count_in_one_edit_ignores_nothing() -> None:
    pool = Pool(scaling=ScalingMode.MANUAL, spec_replicas=2, live=2)
    pool.tick(2)
    both = pool.edit(scaling=ScalingMode.AUTO, spec_replicas=4)
    assert said(both, "Scaling") == ("True", "Acting")


def test_where_signals_come_from_is_always_said() -> None:
    pool = Pool()
    assert said(pool.tick(), "MetricsAvailable") == ("True", "FromPrometheus")
    pool.edit(
        source=SignalSource.PODS, problem="Prometheus at http://p:9090 did not respond within 2 s"
    )
    read = pool.tick()
    assert said(read, "MetricsAvailable") == ("True", "ReadFromPods")
    assert "did not respond" in read.conditions[1].message
    lost = pool.edit(
        source=SignalSource.NONE, problem="3 Ready pods: /metrics did not respond within 2 s"
    )
    assert said(lost, "MetricsAvailable") == ("False", "NoSignals")
    assert said(lost, "Scaling") == ("False", "SignalsAbsent")
    early = pool.edit(source=SignalSource.NONE, problem="")
    assert "normal right after a start" in early.conditions[1].message
    loading = pool.edit(ready=False)
    assert said(loading, "MetricsAvailable") == ("False", "NoReadyPods")
    assert said(loading, "Scaling") == ("True", "Acting")
    none = Pool(scaling=ScalingMode.MANUAL, spec_replicas=0, live=0).tick()
    assert said(none, "MetricsAvailable") == ("Unknown", "NoReadyPods")


def test_a_replica_move_is_one_event_of_one_sentence() -> None:
    pool = Pool()
    pool.tick(2)
    moved = pool.edit(waiting=10.0)
    assert [(event.reason, event.message) for event in moved.events] == [
        ("ScaledUp", "Replicas 1 -> 3: 10 requests are waiting, over 4.0 per replica.")
    ]


def test_an_edited_mode_is_one_event() -> None:
    pool = Pool()
    pool.tick(2)
    outcome = pool.edit(scaling=ScalingMode.HOLD)
    assert [(event.reason, event.message) for event in outcome.events] == [
        ("ModeChanged", "scaling.mode Auto -> Hold.")
    ]
    assert pool.tick().events == ()


def test_the_last_decision_keeps_its_time_while_it_says_the_same() -> None:
    pool = Pool(scaling=ScalingMode.RECOMMEND, batching=BatchingMode.FIXED, live=1, waiting=50.0)
    first = pool.tick(2).last_decision
    later = pool.tick(10)
    assert first is not None
    assert (first.replicas, first.acted, later.acted) == (3, "Recommended", "Recommended")
    assert later.last_decision == first
    assert pool.edit(waiting=90.0).last_decision != first


def test_nothing_wanted_is_nothing_recorded() -> None:
    pool = Pool(live=1, published=published(64), status=PoolStatus())
    pool.tick(10)
    assert pool.outcomes[-1].last_decision is None
    assert pool.outcomes[-1].acted == "Steady"


def test_the_status_holds_decimal_strings_and_leaves_out_what_is_absent() -> None:
    pool = Pool(waiting=2.0, rows_per_second=10.0)
    pool.tick(8)
    signals = PoolSignals(SignalSource.PROMETHEUS)
    status = scaling_status(pool.outcomes[-1].reported, signals, None)
    assert status.source == "Prometheus"
    assert status.waiting == "2.0"
    assert status.rows_per_second == "10.0"
    assert status.batch_time_target_milliseconds == "447.8"
    assert status.batch_p99_milliseconds is None


def test_the_last_start_stays_in_the_status_when_the_gateway_that_saw_it_is_gone() -> None:
    pool = Pool(waiting=2.0, rows_per_second=10.0)
    pool.tick(8)
    reported, signals = pool.outcomes[-1].reported, PoolSignals(SignalSource.PODS)
    seen = GatewayView(last_start=dict.fromkeys(StartPart, 1.25))
    first = scaling_status(reported, signals, None, seen)
    assert first.last_start is not None
    assert first.last_start.model_seconds == "1.25"
    assert scaling_status(reported, signals, None, before=first).last_start == first.last_start
    assert scaling_status(reported, signals, None).last_start is None


def test_the_algorithm_is_chosen_live_and_the_count_stays_where_it_is() -> None:
    pool = Pool(waiting=10.0)
    pool.tick()
    assert pool.live == 3
    chosen = pool.edit(algorithm=ScalingAlgorithm.CAPACITY_AT_OBJECTIVE, waiting=0.0)
    assert pool.live == 3
    pool.tick(5)
    assert pool.live == 3
    assert chosen.decision.replicas_term == "CurveUnknown"
    assert said(chosen, "Scaling") == ("True", "Acting")


@pytest.mark.parametrize("mode", [ScalingMode.HOLD, ScalingMode.RECOMMEND, ScalingMode.MANUAL])
def test_the_modes_apply_to_every_law(mode: ScalingMode) -> None:
    pool = Pool(
        algorithm=ScalingAlgorithm.CAPACITY_AT_OBJECTIVE,
        law=replace(SETTINGS, max_replicas=20),
        scaling=mode,
        spec_replicas=2,
        live=2,
        rows_per_second=900.0,
        published=published(8),
    )
    pool.tick(20)
    assert pool.live == 2
    assert pool.outcomes[-1].decision.replicas == (2 if mode is ScalingMode.MANUAL else 20)


def test_the_law_input_has_binding_times_and_reported_caps() -> None:
    pool = Pool(published=published(8))
    view = pool.view()
    seen = law_input(pool.effective(), view, pool.published, 1)
    assert seen.pods[0].scheduled_since == pool.now - 990
    assert seen.pods[0].ready_since == pool.now - 900
    assert seen.pods[0].cap is None, "no sample said it"
