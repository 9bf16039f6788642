"""Reconcile state: acknowledgements that later samples contradict, and rejected writes that are retried."""

from dataclasses import replace

from penstock_api.pod_contract import Loading, LoadStage
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.observed import (
    Acknowledgement,
    PodSample,
    PoolSignals,
    Rejection,
    SignalSource,
)
from penstock_operator.reconcile_state import PoolState, ReconcileState, back_off, child_key

NOW = 1000.0
REJECTED = Rejection("Deployment", "chat-penstock", "Forbidden", "exceeded quota")


def deployment(replicas: int = 1) -> ChildWrite:
    manifest = {"metadata": {"name": "chat-penstock"}, "spec": {"replicas": replicas}}
    return ChildWrite(Write.CREATE, "Deployment", manifest)


def signals(generation: float, time: float) -> PoolSignals:
    return PoolSignals(
        SignalSource.PODS, (PodSample("pod", time, limits_generation=generation),), queried_at=NOW
    )


def test_a_newer_sample_with_older_limits_replaces_the_acknowledgement() -> None:
    state = PoolState()
    state.record_acks({"pod": Acknowledgement(7, 32)}, NOW - 60)

    state.record_signals(signals(6, NOW - 1), NOW)

    assert state.acknowledgements == {"pod": Acknowledgement(6, 32)}


def test_a_sample_older_than_the_acknowledgement_is_ignored() -> None:
    state = PoolState()
    state.record_acks({"pod": Acknowledgement(7, 32)}, NOW - 1)

    state.record_signals(signals(6, NOW - 3), NOW)

    assert state.acknowledgements == {"pod": Acknowledgement(7, 32)}


def test_only_a_different_acknowledgement_counts_as_a_change() -> None:
    state = PoolState()
    assert state.record_acks({"pod": Acknowledgement(None, None, "timed out")}, NOW)
    assert not state.record_acks({"pod": Acknowledgement(None, None, "timed out")}, NOW + 5)
    assert state.record_acks({"pod": Acknowledgement(8, 32)}, NOW + 9)


def test_acknowledgements_of_deleted_pods_are_dropped() -> None:
    state = PoolState()
    state.record_acks({"a": Acknowledgement(1, 1), "b": Acknowledgement(1, 1)}, NOW)
    state.keep_pods({"b"})
    assert set(state.acknowledgements) == {"b"}


def test_a_rejected_write_is_reported_and_retried_after_a_back_off() -> None:
    state, write = PoolState(), deployment()

    assert state.record_write_results([write], (), {child_key(write): REJECTED}, NOW)
    assert state.rejections == (REJECTED,)
    assert not state.should_retry(write, NOW + 1)
    assert state.should_retry(write, NOW + 2)
    assert not state.record_write_results([write], (), {child_key(write): REJECTED}, NOW + 2)
    assert not state.should_retry(write, NOW + 5)


def test_a_clock_that_was_set_back_prolongs_no_back_off_and_no_acknowledgement() -> None:
    state, write = PoolState(), deployment()
    state.record_write_results([write], (), {child_key(write): REJECTED}, NOW + 7200)
    state.record_acks({"pod": Acknowledgement(7, 32)}, NOW + 7200)
    assert state.should_retry(write, NOW)
    state.record_signals(signals(6, NOW - 1), NOW)
    assert state.acknowledgements == {"pod": Acknowledgement(6, 32)}


def test_a_changed_write_is_sent_without_back_off() -> None:
    state = PoolState()
    state.record_write_results([deployment()], (), {child_key(deployment()): REJECTED}, NOW)
    assert state.should_retry(deployment(replicas=2), NOW)


def test_a_newer_version_of_the_child_ends_no_back_off() -> None:
    state, write = PoolState(), deployment()
    state.record_write_results([write], (), {child_key(write): REJECTED}, NOW)
    write.manifest["metadata"]["resourceVersion"] = "8"
    assert not state.should_retry(write, NOW + 1)


def test_a_write_that_a_webhook_alters_is_sent_every_ten_minutes() -> None:
    state, write, now = PoolState(), deployment(), NOW
    altered = replace(REJECTED, reason=Rejection.ALTERED)
    for seconds in (20, 40, 80, 160, 320, 600, 600):
        state.record_write_results([write], (), {child_key(write): altered}, now)
        assert not state.should_retry(write, now + seconds - 1)
        assert state.should_retry(write, now + seconds)
        now += seconds


def test_a_write_in_back_off_stays_rejected_and_a_successful_one_does_not() -> None:
    state, write = PoolState(), deployment()
    state.record_write_results([write], (), {child_key(write): REJECTED}, NOW)

    assert not state.record_write_results([write], (), {}, NOW + 1)
    assert state.rejections == (REJECTED,)
    assert state.record_write_results([write], {child_key(write)}, {}, NOW + 3)
    assert not state.rejected


def test_a_write_whose_back_off_ends_unsent_stays_rejected_and_keeps_its_back_off() -> None:
    state, write = PoolState(), deployment()
    for at in (NOW, NOW + 2):
        state.record_write_results([write], (), {child_key(write): REJECTED}, at)

    assert not state.should_retry(write, NOW + 5.9)
    assert not state.record_write_results([write], (), {}, NOW + 6.1)
    assert state.rejections == (REJECTED,)
    state.record_write_results([write], (), {child_key(write): REJECTED}, NOW + 10)
    assert not state.should_retry(write, NOW + 17)


def test_a_write_that_is_no_longer_planned_is_no_longer_rejected() -> None:
    state = PoolState()
    state.record_write_results([deployment()], (), {child_key(deployment()): REJECTED}, NOW)
    assert state.record_write_results([], (), {}, NOW + 1)
    assert state.rejections == ()


def test_a_rejected_workload_of_a_rollout_that_waits_stays_rejected_past_its_back_off() -> None:
    state, key = PoolState(), child_key(deployment())
    state.record_write_results([deployment()], (), {key: REJECTED}, NOW)
    assert not state.record_write_results([], (), {}, NOW + 31, waiting=[key])
    assert state.rejections == (REJECTED,)
    assert state.record_write_results([], (), {}, NOW + 32, waiting=[key])
    assert not state.rejected


def test_a_workload_that_is_stored_is_no_longer_rejected_though_its_rollout_waited() -> None:
    state, key = PoolState(), child_key(deployment())
    state.record_write_results([deployment()], (), {key: REJECTED}, NOW)
    assert state.record_write_results([deployment()], {key}, {}, NOW + 2, waiting=[key])
    assert not state.rejected


def test_back_off_doubles_up_to_a_minute() -> None:
    assert [back_off(n) for n in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]


def test_a_forgotten_pool_starts_with_empty_state() -> None:
    state = ReconcileState()
    state.of("a").failures = 3
    state.forget("a")
    assert state.of("a").failures == 0


def test_progress_of_a_load_does_not_count_as_a_change() -> None:
    state = PoolState()
    loads = [
        Acknowledgement(None, None, "503", Loading(stage=LoadStage.FETCHING, loaded_bytes=count))
        for count in (1, 2)
    ]
    assert state.record_acks({"a": loads[0]}, NOW) is True
    assert state.record_acks({"a": loads[1]}, NOW) is False
    assert state.acknowledgements["a"] == loads[1]
