"""Every request ends exactly once, and no request ends the engine."""

from typing import Any

import numpy as np
import pytest

from penstock_runtime.engine.continuous.messages import (
    FinishReason,
    Generated,
    Stop,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.messages import Cancel
from penstock_runtime.engine.model import DeviceLost
from penstock_runtime.request import Cancelled, Expired, Failed
from tests.unit.runtime.engine.continuous.driver import generate_request


def test_a_generation_is_reported_token_by_token_and_ends_with_its_usage(driver: Any) -> None:
    driver.engine.take(generate_request("a", [1, 2, 3], tokens=5), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == [3, 4, 5, 6, 7]
    assert driver.finished["a", 0].reason is FinishReason.LENGTH
    usage = driver.ends["a"].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 5)


def test_a_stop_id_ends_a_choice_and_is_not_reported(driver: Any) -> None:
    params = SamplingParams(max_tokens=9, stop_ids=frozenset({5}))
    driver.engine.take(generate_request("a", [1, 2, 3], params=params), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == [3, 4]
    assert (driver.finished["a", 0].reason, driver.finished["a", 0].stop_id) == ("stop", 5)


def test_what_has_run_for_its_time_finishes_with_what_it_has(driver: Any) -> None:
    params = SamplingParams(max_tokens=20, max_run_seconds=1.0)
    driver.engine.take(generate_request("long", [1, 2, 3], params=params), 0.0)
    driver.engine.take(generate_request("other", [1, 2, 3], tokens=20), 0.0)
    driver.run()
    assert driver.tokens["long", 0] == [3, 4, 5, 6], "steps of 0.25 s"
    assert driver.finished["long", 0].reason is FinishReason.LENGTH
    assert len(driver.tokens["other", 0]) == 20


def test_a_stop_from_outside_finishes_well_and_nothing_follows(driver: Any) -> None:
    driver.engine.take(generate_request("a", [1], tokens=100), 0.0)
    for _ in range(4):
        driver.turn()
    driver.engine.take(Stop((("a", 0),)), driver.now)
    tokens = list(driver.tokens["a", 0])
    driver.run()
    assert driver.tokens["a", 0] == tokens
    assert isinstance(driver.ends["a"], Generated)


def test_a_cancelled_request_ends_and_its_blocks_are_free(driver: Any) -> None:
    driver.engine.take(generate_request("a", list(range(20)), tokens=100), 0.0)
    driver.engine.take(generate_request("b", [7], tokens=3), 0.0)
    driver.turn()
    driver.engine.take(Cancel(("a", "unknown")), driver.now)
    driver.run()
    report = driver.engine.report()
    assert driver.ends["a"] == Cancelled()
    assert isinstance(driver.ends["b"], Generated)
    assert report.used_blocks == 0
    assert (report.waiting, report.running) == (0, 0)


def test_a_deadline_ends_waiting_and_running_alike(driver: Any) -> None:
    driver.engine.take(generate_request("a", [1], tokens=200, deadline=4.0), 0.0)
    driver.run()
    assert isinstance(driver.ends["a"], Expired)
    assert 0 < len(driver.tokens["a", 0]) < 10


def test_choices_end_one_by_one_and_the_request_with_the_last(driver: Any) -> None:
    driver.engine.take(generate_request("a", list(range(10)), tokens=4, n=3), 0.0)
    driver.run()
    assert [driver.tokens["a", choice] for choice in range(3)] == [[10, 11, 12, 13]] * 3
    assert driver.ends["a"].usage.completion_tokens == 12
    assert {draw.choice for inputs in driver.step.inputs for draw in inputs.draws} == {0, 1, 2}


def test_choices_of_one_token_run_together_once_the_first_has_ended(driver: Any) -> None:
    driver.engine.take(generate_request("a", list(range(10)), tokens=1, n=5), 0.0)
    driver.run()
    assert [driver.tokens["a", choice] for choice in range(5)] == [[10]] * 5
    drawn = [len(inputs.draws) for inputs in driver.step.inputs if inputs.draws]
    assert drawn == [1, 4]


def test_a_step_that_breaks_fails_its_own_requests_only(driver: Any) -> None:
    driver.engine.take(generate_request("a", [1], tokens=50), 0.0)
    driver.turn()
    driver.step.breaks_on = "a"
    driver.turn()
    driver.turn()
    driver.engine.take(generate_request("b", [1, 2], tokens=3), driver.now)
    driver.run()
    assert driver.ends["a"] == Failed("RuntimeError: bad kernel")
    assert driver.tokens["b", 0] == [2, 3, 4]


def test_a_retry_finds_nothing_cached_of_a_prompt_whose_first_chunk_failed(driver: Any) -> None:
    prompt = list(range(100))
    driver.step.breaks_once = "a"
    driver.engine.take(generate_request("a", prompt), 0.0)
    driver.run()
    assert driver.ends["a"] == Failed("RuntimeError: bad kernel")
    assert driver.engine.report().cached_blocks == 0, "the second chunk attended to the first"


def test_a_row_that_is_spoilt_fails_alone(driver: Any) -> None:
    driver.step.spoils = ("a", 0)
    driver.engine.take(generate_request("a", [1], tokens=5), 0.0)
    driver.engine.take(generate_request("b", [1, 2], tokens=3), 0.0)
    driver.run()
    assert driver.ends["a"] == Failed("not a number")
    assert driver.tokens["b", 0] == [2, 3, 4]


def test_a_choice_that_ends_in_the_step_that_spoils_another_of_its_request_fails_with_it(
    driver: Any,
) -> None:
    driver.step.spoils, driver.step.spoils_with = ("a", 1), 5
    params = SamplingParams(max_tokens=9, stop_ids=frozenset({5}))
    driver.engine.take(generate_request("a", [1, 2, 3], params=params, n=2), 0.0)
    driver.engine.take(generate_request("b", [1], tokens=9), 0.0)
    driver.run()
    assert driver.ends["a"] == Failed("not a number")
    assert ("a", 0) not in driver.finished
    assert driver.tokens["b", 0] == list(range(1, 10))
    assert driver.engine.report().used_blocks == 0


def test_penalties_see_every_token_before_the_draw(driver: Any) -> None:
    params = SamplingParams(max_tokens=4, presence_penalty=1.0)
    driver.engine.take(generate_request("a", [1, 2], params=params), 0.0)
    driver.run()
    seen = [
        draw.output_ids.tolist()
        for inputs in driver.step.inputs
        for draw in inputs.draws
        if draw.output_ids is not None and draw.output_tokens < 4
    ]
    assert seen == [[], [2], [2, 3], [2, 3, 4]]


def test_a_repetition_penalty_has_the_distinct_ids_of_the_prompt(driver: Any) -> None:
    params = SamplingParams(max_tokens=2, repetition_penalty=1.5)
    driver.engine.take(generate_request("a", [4, 2, 4, 2, 1], params=params, n=2), 0.0)
    driver.run()
    draws = [draw for inputs in driver.step.inputs for draw in inputs.draws]
    assert {draw.choice for draw in draws} == {0, 1}
    assert all(draw.prompt_ids.tolist() == [1, 2, 4] for draw in draws)


def test_a_lost_device_ends_the_engine(driver: Any) -> None:
    driver.engine.take(generate_request("a", [1]), 0.0)
    driver.step.lost = True
    with pytest.raises(DeviceLost):
        driver.run()


def test_the_curves_sums_are_those_of_its_steps(driver: Any) -> None:
    driver.engine.take(generate_request("a", list(range(20)), tokens=3), 0.0)
    driver.run()
    steps = [posted.step for posted in driver.posted if posted.step is not None]
    x = np.array(
        [[1.0, s.prefill_tokens / 256, s.decode_rows, s.kv_tokens / 4096, s.seconds] for s in steps]
    )
    wanted = (x.T @ x)[np.triu_indices(5)]
    assert driver.engine.report().curve.sums == pytest.approx(wanted.tolist())
    assert [(s.prefill_tokens, s.decode_rows, s.kv_tokens) for s in steps] == [
        (20, 0, 20),
        (0, 1, 21),
        (0, 1, 22),
    ]
