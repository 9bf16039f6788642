"""CapacityAtObjective over pools that generate text: requests are not work, tokens and cache are."""

from dataclasses import replace
from math import inf

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.capacity.decode_capacity import (
    decode_capacity,
)
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    MAX_PRICE,
    MIN_PRICE,
    Lateness,
)
from penstock_operator.decide.scaling.capacity_at_objective.law import (
    CapacityAtObjective,
    _unpredicted,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    SPREAD_UTILIZATION,
    UTILIZATION,
)
from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.law import RequestSpread
from penstock_operator.decide.scaling.reasons import CapReason, ReplicasReason

from .world import BOUNDS, DEVICE, SETTINGS, Pool, Replica


def share_within(pods: list[Replica], name: str, seconds: float) -> float:
    each: list[list[int]] = [getattr(pod, name) for pod in pods]
    counts = [sum(column) for column in zip(*each, strict=True)]
    within: int = sum(
        count for bound, count in zip(BOUNDS, counts, strict=True) if bound <= seconds
    )
    whole: int = max(sum(counts), 1)
    return within / whole


def capacity(pool: Pool, rows: float) -> float:
    """Return what one replica can really end a second with so many running, in the steady state."""
    context = rows * (pool.prompt + pool.answer)  # longer answers are seen more often
    prefill = rows * pool.prompt / pool.answer
    return rows / pool.device.seconds(prefill, rows, context) / pool.answer


def test_capacity_is_learnt_in_answers_a_second() -> None:
    pool = Pool(rate=2.0, replicas=2).run(300)
    model = decode_capacity(tuple(pool.state.step_curves.pods.values()))
    assert model is not None
    assert model.steps == pytest.approx(pool.answer, rel=0.25)
    assert model.capacity(20) == pytest.approx(capacity(pool, 20), rel=0.25)


def test_the_cap_is_what_the_time_of_a_token_allows() -> None:
    """t(b) of 0.9 * 50 ms: about 43 rows with their share of prompts and context; the first cap is not felt for."""
    pool = Pool(rate=3.0, replicas=2).run(300)
    assert pool.last.cap_term == CapReason.OBJECTIVE
    assert "fits 50 ms a token" in pool.last.message
    step = pool.device.seconds(
        pool.last.cap * pool.prompt / pool.answer,
        pool.last.cap,
        pool.last.cap * (pool.prompt + pool.answer),
    )
    assert 0.035 <= step <= 0.05


def test_a_tighter_objective_lowers_the_cap_live_and_needs_more_replicas() -> None:
    pool = Pool(rate=12.0, replicas=3).run(400)
    cap, replicas = pool.last.cap, pool.last.replicas
    pool.settings = replace(pool.settings, output_token_milliseconds=30)
    pool.run(300)
    assert pool.last.cap < 0.7 * cap
    assert pool.last.replicas > replicas


def test_a_step_of_load_is_followed_and_both_objectives_are_kept_when_it_is() -> None:
    pool = Pool(rate=3.0, replicas=1).run(300)
    before = pool.last.replicas
    pool.rate = 24.0
    pool.run(240)
    assert pool.last.replicas >= before + 2
    for pod in pool.pods:
        pod.tokens, pod.first_tokens = [0] * len(BOUNDS), [0] * len(BOUNDS)
    pool.run(300)
    assert share_within(pool.pods, "tokens", 0.05) >= 0.99
    assert share_within(pool.pods, "first_tokens", 2.0) >= 0.97
    high = pool.last.replicas
    pool.rate = 2.0
    pool.run(900)
    assert pool.last.replicas <= high / 2, "and given back"


def test_when_the_last_answer_has_been_streamed_the_second_replica_goes() -> None:
    """ray#61551: a deployment that streams stays at two replicas after its last request ended."""
    pool = Pool(rate=1.0, replicas=2, answer=600).run(300)
    assert pool.last.replicas == 2
    pool.rate = 0.0
    pool.run(120)
    assert not any(pod.waiting or pod.running for pod in pool.pods)
    pool.run(180)
    assert pool.last.replicas == 1


def test_longer_answers_are_more_work_at_the_same_rate_of_requests() -> None:
    short, long = (
        Pool(rate=6.0, replicas=2).run(500),
        Pool(rate=6.0, replicas=2, answer=300).run(500),
    )
    assert long.last.replicas >= short.last.replicas + 2


def test_single_steps_that_stall_do_not_shrink_the_batch() -> None:
    """Every twentieth step takes eight times as long, whatever is in it: fewer rows would only serve fewer."""
    even, uneven = Pool(rate=3.0, replicas=2), Pool(rate=3.0, replicas=2, stalls=0.05)
    uneven.settings = even.settings = replace(SETTINGS, output_token_milliseconds=80)
    even.run(300)
    uneven.run(300)
    assert uneven.last.cap >= 0.3 * even.last.cap
    assert uneven.last.cap >= 10


def test_pauses_between_steps_are_part_of_what_a_replica_can_do() -> None:
    """The sums include steps alone; here pauses add half of each step's time, and four sequences run while many wait."""
    few = replace(
        SETTINGS, size_max=4, output_token_milliseconds=None, first_token_milliseconds=None
    )
    pool = Pool(rate=1.5, settings=few, pause=0.5, cap=4).run(150)
    model = decode_capacity(tuple(pool.state.step_curves.pods.values()))
    assert model is not None
    assert model.capacity(4) == pytest.approx(capacity(pool, 4) / 1.5, rel=0.25)
    assert pool.run(100).last.replicas >= 2


def test_a_small_cache_bounds_what_a_replica_can_do() -> None:
    """20 sequences of 300 tokens fill the cache: more places would be of no use, so more replicas are."""
    roomy = Pool(rate=10.0, replicas=3).run(500)
    tight = Pool(rate=10.0, replicas=3, device=replace(DEVICE, cache_tokens=4_000)).run(500)
    model = decode_capacity(tuple(tight.state.step_curves.pods.values()))
    assert model is not None
    assert model.max_rows < 25
    assert tight.last.replicas > roomy.last.replicas


def test_without_a_warm_up_the_plan_stays_within_the_measured_range() -> None:
    pool = Pool(rate=1.0, replicas=1, warms_up=False).run(200)
    model = decode_capacity(tuple(pool.state.step_curves.pods.values()))
    assert model is not None
    assert model.largest < 20
    assert pool.last.cap_term in {CapReason.MEASURED_RANGE, CapReason.STEP_INTERVAL}


def test_before_answers_have_ended_the_count_stays_and_the_warm_up_gives_the_cap() -> None:
    pool = Pool(rate=0.5, replicas=3, answer=4000).run(30)
    assert pool.last.replicas == 3
    assert pool.last.replicas_term == ReplicasReason.CURVE_UNKNOWN
    assert 15 <= pool.last.cap <= 64
    assert "timed at load" in pool.last.message
    free = Pool(rate=0.5, answer=4000, settings=replace(SETTINGS, output_token_milliseconds=None))
    assert free.run(30).last.cap == SETTINGS.size_max


def test_a_prompt_queue_longer_than_the_first_token_may_wait_is_a_panic() -> None:
    pool = Pool(rate=3.0, replicas=1, settings=replace(SETTINGS, first_token_milliseconds=500))
    pool.run(200)
    pool.rate = 40.0
    pool.run(20)
    terms = {demand.term for decision in pool.decisions[-4:] for demand in decision.demands}
    assert ReplicasReason.PANIC in terms


def test_what_is_spared_follows_the_price_of_late_tokens() -> None:
    """70 % are planned at the highest price; at the lowest, where a router spreads requests, 95 %."""
    pool = Pool(rate=12.0, replicas=4).run(600)
    price, need = pool.state.lateness.lateness_price, pool.last.demands[0].replicas
    assert price < INITIAL_PRICE
    assert pool.last.observations.utilization_target == UTILIZATION
    routed = pool.state._replace(spread=RequestSpread.LEAST_REQUEST)
    assert UTILIZATION < _unpredicted(routed) < SPREAD_UTILIZATION
    cheap = routed._replace(lateness=Lateness(MIN_PRICE))
    assert _unpredicted(cheap) == SPREAD_UTILIZATION
    pool.state = pool.state._replace(
        lateness=pool.state.lateness._replace(lateness_price=MAX_PRICE)
    )
    pool.run(5)
    assert pool.last.observations.utilization_target == pytest.approx(0.7, abs=0.01)
    assert pool.last.demands[0].replicas > 1.1 * need


def test_latency_is_not_predicted_for_generation() -> None:
    pool = Pool(rate=3.0, settings=replace(SETTINGS, objective_milliseconds=20_000)).run(200)
    assert pool.last.observations.predicted_p99_seconds is None
    assert pool.last.outlook is not None
    assert pool.last.outlook.traffic is None


def test_step_curves_survive_a_restart() -> None:
    pool = Pool(rate=3.0, replicas=2).run(300)
    kept = to_checkpoint(pool.state)
    again = from_checkpoint(CapacityAtObjective().initial(pool.now), kept, pool.now, pool.now)
    after, before = (
        decode_capacity(again.step_curves.of_revision("one")),
        decode_capacity(tuple(pool.state.step_curves.pods.values())),
    )
    assert after is not None
    assert before is not None
    assert after.capacity(30) == pytest.approx(before.capacity(30) or inf, rel=0.02)
    assert after.max_rows == pytest.approx(before.max_rows, rel=0.02)
