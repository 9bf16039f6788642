"""Live limits: changes while answers run, and the state and metrics of the pod."""

from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2

from penstock_api import names
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    StepSums,
    parse_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import fit
from penstock_operator.observe.signals.samples import parse, pod_sample
from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from tests.unit.runtime.protocols.openai.served import NAME, Served
from tests.unit.runtime.protocols.openai.test_ends import LONG, PATH, engine_is_empty, open_request

Serve = Callable[..., Served]
LIMITS = {
    "generation": 2,
    "maxBatchSize": 1,
    "maxBatchedTokens": 16,
    "maxQueueDepth": 64,
    "maxQueueDelayMilliseconds": 0,
    "discipline": "Priority",
    "preemption": "TimeSlice",
    "drain": "Evict",
}


def ask_for(served: Served, **more: Any) -> httpx2.Response:
    """PATCH the limits; return the answer."""
    url = served.cluster_url + names.PATH_LIMITS
    return httpx2.patch(url, json={**LIMITS, **more}, timeout=20)


def patch(served: Served, **more: Any) -> dict[str, Any]:
    """PATCH the limits; they are accepted. Return the state."""
    answer = ask_for(served, **more)
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json()
    return state


def state_of(served: Served) -> dict[str, Any]:
    """GET the state."""
    state: dict[str, Any] = httpx2.get(served.cluster_url + names.PATH_STATE, timeout=20).json()
    return state


def load_of(served: Served) -> int:
    """Return how many requests are in the pod."""
    load = served.pod.admission.load()
    return load.waiting + load.running


def metric(served: Served, name: str) -> float:
    """Return the value of a sample by its name and labels."""
    text = httpx2.get(served.cluster_url + names.PATH_METRICS, timeout=20).text
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
    return float(line.split()[1])


def test_a_smaller_cap_evicts_at_once_and_changes_no_answer(serve: Serve) -> None:
    served = serve()
    with served.held_still():  # on a busy machine the first would end before the last comes
        streams = [
            open_request(served, {**LONG, "max_tokens": 400, "stream": True}) for _ in range(4)
        ]
        served.until(lambda: load_of(served) == 4)
    served.until(
        lambda: served.pod.engine.report is not None and served.pod.engine.report.running == 4
    )
    with served.held_still():
        patch(served)
    served.until(lambda: served.pod.live.in_force.generation == 2)
    with served.held_still():
        report = served.ask(lambda: served.pod.engine.report)
        assert report is not None
        assert (report.running, served.pod.live.in_force.max_batch_size) == (1, 1)
        assert state_of(served)["load"] == {"running": 1, "waiting": 3}, "preempted streams wait"
        for prefix, labels in (("penstock_", ""), ("vllm:num_", f'{{model_name="{NAME}"}}')):
            assert metric(served, f"{prefix}requests_running{labels}") == 1
            assert metric(served, f"{prefix}requests_waiting{labels}") == 3
    patch(served, generation=3, maxBatchSize=8, drain="Finish")
    for stream in streams:
        stream.settimeout(30)
        data = b""
        while b"[DONE]" not in data:
            more = stream.recv(65_536)
            assert more, data[-300:]
            data += more
        assert b'"finish_reason":"length"' in data
        stream.close()
    served.until(engine_is_empty(served))


def test_a_request_of_many_choices_is_one_request_that_runs(serve: Serve) -> None:
    served = serve()
    client = open_request(served, {**LONG, "max_tokens": 400, "n": 3, "stream": True})
    served.until(
        lambda: served.pod.engine.report is not None and served.pod.engine.report.running == 3
    )
    assert state_of(served)["load"] == {"running": 1, "waiting": 0}
    client.close()
    served.until(engine_is_empty(served))
    assert state_of(served)["load"] == {"running": 0, "waiting": 0}


def test_a_smaller_cap_that_lets_all_finish_reports_the_excess(serve: Serve) -> None:
    served = serve()
    streams = [open_request(served, {**LONG, "stream": True}) for _ in range(4)]
    served.until(
        lambda: served.pod.engine.report is not None and served.pod.engine.report.running == 4
    )
    state = patch(served, drain="Finish")
    assert (state["generation"], state["converging"], state["surplus"]) == (2, True, 3)
    assert metric(served, names.METRIC_BATCH_SURPLUS) == 3
    for stream in streams:
        stream.close()
    served.until(engine_is_empty(served))
    state = state_of(served)
    assert (state["converging"], state["surplus"]) == (False, 0)
    assert metric(served, names.METRIC_BATCH_SURPLUS) == 0


def test_fewer_step_tokens_than_the_cap_are_a_422_with_the_field(served: Served) -> None:
    answer = ask_for(served, maxBatchSize=32)
    assert (answer.status_code, answer.json()["field"]) == (422, "maxBatchedTokens")


def test_more_step_tokens_than_the_cache_holds_are_a_422(
    serve: Serve,
) -> None:
    served = serve()
    most = state_of(served)["envelope"]["maxBatchedTokens"]["max"]
    answer = ask_for(served, maxBatchedTokens=most + 1)
    assert (answer.status_code, answer.json()["field"]) == (422, "maxBatchedTokens")
    assert f"from 1 to {most}" in answer.json()["error"]
    assert state_of(served)["generation"] == 1
    assert patch(served, maxBatchedTokens=most)["generation"] == 2


def test_limits_from_the_file_are_acknowledged_even_beyond_the_envelope(
    serve: Serve,
) -> None:
    served = serve(limits={"generation": 2, "max_batched_tokens": 1_000_000})
    limits = served.pod.live.accepted.model_dump(mode="json", by_alias=True)
    assert ask_for(served, **limits).json()["generation"] == 2


def test_the_largest_cap_is_limited_by_the_blocks_of_the_cache(serve: Serve) -> None:
    served = serve(step=StepOptions(dtype=DType.FLOAT32, cache_bytes=2**16))
    info = served.pod.engine.require_serving().info
    assert info.kv.blocks < info.max_running
    state = patch(served, maxBatchSize=info.max_running, maxBatchedTokens=None)
    assert state["effectiveMax"] == info.kv.blocks
    assert metric(served, names.METRIC_BATCH_CAP_BOUND) == info.kv.blocks


def test_the_state_has_the_curve_and_the_chosen_settings(served: Served) -> None:
    served.until(engine_is_empty(served))
    before = state_of(served)["generationCurve"]["sums"]
    httpx2.post(served.url + PATH, json={"prompt": "a", "max_tokens": 3}, timeout=20)
    served.until(engine_is_empty(served))
    state = state_of(served)
    assert len(state["generationCurve"]["sums"]) == len(before) == 15
    assert 3 <= state["generationCurve"]["sums"][0] - before[0] <= 5
    assert state["attention"]
    assert state["dtype"] == "float32"
    assert state["envelope"]["maxBatchedTokens"]["min"] == 1


def test_the_metrics_have_tokens_times_cache_and_curve(served: Served) -> None:
    httpx2.post(served.url + PATH, json={"prompt": "The river", "max_tokens": 3}, timeout=20)
    text = httpx2.get(served.cluster_url + names.PATH_METRICS, timeout=20).text
    for line in (
        'penstock_tokens_total{phase="prefill"}',
        'penstock_tokens_total{phase="decode"}',
        "penstock_time_to_first_token_seconds_count",
        "penstock_time_per_output_token_seconds_sum",
        "penstock_prompt_tokens_received_total",
        'penstock_prefix_cache_tokens_total{result="hit"}',
        "penstock_preemptions_total",
        "penstock_kv_cache_usage_ratio",
        'penstock_generation_curve_total{epoch="0",term="1*1"}',
        'penstock_generation_curve_total{epoch="1",term="t*t"}',
        'vllm:kv_cache_usage_perc{model_name="tiny"}',
    ):
        assert line in text, line


class ReportedMetrics(NamedTuple):
    """Metrics that the operator reads: of the answers so far, and of the warm-up."""

    tokens: float
    answers: float
    steps: float
    warm_up: StepSums | None


def reported_by(served: Served) -> ReportedMetrics:
    """Return the metrics of an idle pod: counters since its start."""
    served.until(engine_is_empty(served))
    text = httpx2.get(served.cluster_url + names.PATH_METRICS, timeout=20).text
    report = pod_sample(parse(text), "uid", 1.0).generation
    assert report is not None
    assert report.epoch == 1
    steps = parse_steps(report.sums)
    assert steps is not None
    assert report.generated_tokens is not None
    answers = report.first_token_buckets[-1][1]
    return ReportedMetrics(report.generated_tokens, answers, steps.n, parse_steps(report.warm_up))


def test_the_operator_reads_steps_including_the_warm_up(served: Served) -> None:
    before = reported_by(served)
    body = {"prompt": "The river", "max_tokens": 8, "ignore_eos": True}
    httpx2.post(served.url + PATH, json=body, timeout=20)
    report = reported_by(served)
    assert report.tokens - before.tokens == 8
    assert report.answers - before.answers == 1
    assert 8 <= report.steps - before.steps <= 8 + 2
    warm_up = report.warm_up
    assert warm_up is not None
    assert warm_up.n >= 4
    plane = fit(warm_up)
    assert plane is not None
    assert plane.seconds(0, 8, 8 * 193) > 0, (
        "a step as it was timed; chance may leave a single term at 0"
    )
