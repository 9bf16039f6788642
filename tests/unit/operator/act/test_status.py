"""Which differences of a status are worth a write, and when."""

from typing import Any

from penstock_operator.act.status import (
    JITTER_SECONDS,
    jitter,
    policy_worth_writing,
    worth_writing,
)

Json = dict[str, Any]
NOW = 1000.0


def status(**more: Any) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "Serving", "message": "2 of 2 ready"}
    return {"replicas": 2, "conditions": [ready], **more}


def ready(**more: Any) -> Json:
    return {**status()["conditions"][0], **more}


def test_an_equal_status_is_never_written() -> None:
    assert not worth_writing(status(), status(), None, NOW)


def test_a_count_is_written_at_once() -> None:
    assert worth_writing(status(), status(replicas=3), NOW, NOW)


def test_a_condition_that_turns_is_written_at_once() -> None:
    turned = status(conditions=[ready(status="False", reason="NameConflict")])
    assert worth_writing(status(), turned, NOW, NOW)


def test_words_of_a_condition_wait_ten_seconds() -> None:
    said = status(conditions=[ready(message="3 of 3 ready")])
    assert not worth_writing(status(), said, NOW - 9, NOW)
    assert worth_writing(status(), said, NOW - 10, NOW)


def test_a_transition_time_alone_is_not_worth_a_write() -> None:
    dated = status(conditions=[ready(lastTransitionTime="2026-11-21T10:00:00Z")])
    assert not worth_writing(status(), dated, None, NOW)


def test_samples_wait_a_minute_however_far_they_move() -> None:
    held = status(scaling={"source": "Prometheus", "waiting": "10"})
    wanted = status(scaling={"source": "Prometheus", "waiting": "900"})

    assert not worth_writing(held, wanted, NOW - 59, NOW)
    assert worth_writing(held, wanted, NOW - 60, NOW)


def test_samples_inside_their_dead_band_are_never_written() -> None:
    held = status(scaling={"source": "Pods", "rowsPerSecond": "100", "signalAgeSeconds": "1.5"})
    wanted = status(scaling={"source": "Pods", "rowsPerSecond": "109", "signalAgeSeconds": "9.0"})

    assert not worth_writing(held, wanted, None, NOW)


def test_a_sample_that_comes_or_goes_has_moved() -> None:
    held = status(scaling={"source": "Pods"})
    assert worth_writing(held, status(scaling={"source": "Pods", "waiting": "0"}), None, NOW)


def test_another_source_is_written_at_once() -> None:
    held, wanted = status(scaling={"source": "Prometheus"}), status(scaling={"source": "Pods"})
    assert worth_writing(held, wanted, NOW, NOW)


def test_a_decision_that_moves_a_valve_is_written_at_once_and_its_words_are_not() -> None:
    decision = {
        "algorithm": "UtilizationBand",
        "cap": 8,
        "replicas": 2,
        "time": "a",
        "message": "m",
    }
    held = status(lastDecision=decision)

    assert worth_writing(held, status(lastDecision={**decision, "cap": 10}), NOW, NOW)
    reworded = status(lastDecision={**decision, "message": "n"})
    assert not worth_writing(held, reworded, NOW, NOW)
    assert worth_writing(held, reworded, NOW - 60, NOW)
    assert not worth_writing(held, status(lastDecision={**decision, "time": "b"}), None, NOW)


def test_jitter_is_the_pools_own_and_bounded() -> None:
    all_of_them = [jitter(f"pool-{number}") for number in range(200)]
    assert jitter("pool-1") == jitter("pool-1")
    assert min(all_of_them) >= 0
    assert max(all_of_them) < JITTER_SECONDS
    assert len(set(all_of_them)) > 20


def test_a_policys_figures_alone_are_written_now_and_then() -> None:
    held = {"budgets": [{"wanted": 7}], "matchedPools": 2}
    busier = {"budgets": [{"wanted": 8}], "matchedPools": 2}
    other = {"budgets": [{"wanted": 8}], "matchedPools": 3}
    assert not policy_worth_writing(held, held, None, 0.0)
    assert policy_worth_writing(held, busier, None, 0.0)
    assert not policy_worth_writing(held, busier, 100.0, 109.0)
    assert policy_worth_writing(held, busier, 100.0, 110.0)
    assert policy_worth_writing(held, other, 100.0, 101.0)
