"""What the pass remembers: acknowledgements that later samples can contradict, refusals that heal."""

from penstock_api.limits import Loading, LoadStage
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
REFUSED = Rejection("Deployment", "chat-penstock", "Forbidden", "exceeded quota")


def deployment(replicas: int = 1) -> ChildWrite:
    manifest = {"metadata": {"name": "chat-penstock"}, "spec": {"replicas": replicas}}
    return ChildWrite(Write.CREATE, "Deployment", manifest)


def signals(generation: float, time: float) -> PoolSignals:
    return PoolSignals(
        SignalSource.PODS, (PodSample("pod", time, limits_generation=generation),), queried_at=NOW
    )


def test_a_pod_that_restarted_on_older_limits_is_believed() -> None:
    memory = PoolState()
    memory.record_acks({"pod": Acknowledgement(7, 32)}, NOW - 60)

    memory.record_signals(signals(6, NOW - 1), NOW)

    assert memory.acknowledgements == {"pod": Acknowledgement(6, 32)}


def test_a_sample_older_than_the_acknowledgement_is_not_believed() -> None:
    memory = PoolState()
    memory.record_acks({"pod": Acknowledgement(7, 32)}, NOW - 1)

    memory.record_signals(signals(6, NOW - 3), NOW)

    assert memory.acknowledgements == {"pod": Acknowledgement(7, 32)}


def test_only_a_new_answer_is_news() -> None:
    memory = PoolState()
    assert memory.record_acks({"pod": Acknowledgement(None, None, "timed out")}, NOW)
    assert not memory.record_acks({"pod": Acknowledgement(None, None, "timed out")}, NOW + 5)
    assert memory.record_acks({"pod": Acknowledgement(8, 32)}, NOW + 9)


def test_pods_that_are_gone_are_forgotten() -> None:
    memory = PoolState()
    memory.record_acks({"a": Acknowledgement(1, 1), "b": Acknowledgement(1, 1)}, NOW)
    memory.keep_pods({"b"})
    assert set(memory.acknowledgements) == {"b"}


def test_a_refused_write_is_told_and_waits_before_it_is_sent_again() -> None:
    memory, write = PoolState(), deployment()

    assert memory.record_write_results([write], {child_key(write): REFUSED}, NOW)
    assert memory.rejections == (REFUSED,)
    assert not memory.should_retry(write, NOW + 1)
    assert memory.should_retry(write, NOW + 2)
    assert not memory.record_write_results([write], {child_key(write): REFUSED}, NOW + 2)
    assert not memory.should_retry(write, NOW + 5)


def test_a_changed_write_is_sent_at_once() -> None:
    memory = PoolState()
    memory.record_write_results([deployment()], {child_key(deployment()): REFUSED}, NOW)
    assert memory.should_retry(deployment(replicas=2), NOW)


def test_a_write_that_waits_stays_refused_and_one_that_went_through_does_not() -> None:
    memory, write = PoolState(), deployment()
    memory.record_write_results([write], {child_key(write): REFUSED}, NOW)

    assert not memory.record_write_results([write], {}, NOW + 1)
    assert memory.rejections == (REFUSED,)
    assert memory.record_write_results([write], {}, NOW + 3)
    assert not memory.refused


def test_what_is_not_wanted_any_more_is_not_refused_any_more() -> None:
    memory = PoolState()
    memory.record_write_results([deployment()], {child_key(deployment()): REFUSED}, NOW)
    assert memory.record_write_results([], {}, NOW + 1)
    assert memory.rejections == ()


def test_back_off_doubles_up_to_a_minute() -> None:
    assert [back_off(n) for n in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]


def test_a_forgotten_pool_begins_anew() -> None:
    memory = ReconcileState()
    memory.of("a").failures = 3
    memory.forget("a")
    assert memory.of("a").failures == 0


def test_a_load_that_goes_on_is_no_news_so_that_the_pool_is_not_visited_at_once() -> None:
    memory = PoolState()
    loads = [
        Acknowledgement(None, None, "503", Loading(stage=LoadStage.FETCHING, loaded_bytes=held))
        for held in (1, 2)
    ]
    assert memory.record_acks({"a": loads[0]}, NOW) is True
    assert memory.record_acks({"a": loads[1]}, NOW) is False
    assert memory.acknowledgements["a"] == loads[1]
