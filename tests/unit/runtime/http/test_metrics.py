"""Every metric of `penstock_api.names` is exposed, and counts what happened."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock_api import names
from penstock_operator.observe.signals import samples as operator_samples
from penstock_runtime import errors
from penstock_runtime.engine.continuous.service_curve import GenerationSums
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.counters import Histogram
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.metrics import GenerationCollector


async def scrape(pod: Any, url: str | None = None) -> dict[str, float]:
    """Return samples by `name` or `name{label="value"}`."""
    async with pod.session.get(f"{url or pod.cluster_url}/metrics") as reply:
        assert reply.status == 200
        text = await reply.text()
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


OF_GENERATION = {
    names.METRIC_BATCH_SURPLUS,
    names.METRIC_GENERATION_CURVE,
    names.METRIC_KV_CACHE_USAGE,
    names.METRIC_HANDOVERS,
    names.METRIC_PREEMPTIONS,
    names.METRIC_PREFIX_CACHE_TOKENS,
    names.METRIC_PROMPT_TOKENS_RECEIVED,
    names.METRIC_TIME_PER_OUTPUT_TOKEN,
    names.METRIC_TIME_TO_FIRST_TOKEN,
    names.METRIC_TOKENS,
}
"""Exposed by pods that generate, in `serving/generation/metrics.py`; its own tests look for them."""


async def test_every_name_is_exposed(pod: Any, call: Callable[..., Any]) -> None:
    async with await pod.infer(call()), await pod.infer({}):
        pass
    exposed = {sample.partition("{")[0] for sample in await scrape(pod)}
    wanted = {value for name, value in vars(names).items() if name.startswith("METRIC_")}
    histograms = {
        names.METRIC_REQUEST_DURATION,
        names.METRIC_TIME_IN_QUEUE,
        names.METRIC_BATCH_SIZE,
    }
    histograms.add(names.METRIC_BATCH_DURATION)
    for name in histograms:
        assert {f"{name}_bucket", f"{name}_sum", f"{name}_count"} <= exposed
    wanted -= OF_GENERATION
    assert wanted - histograms - {names.METRIC_GPU_MEMORY} <= exposed, "GPU memory is NVML's alone"


async def test_samples_count_what_happened(pod: Any, call: Callable[..., Any]) -> None:
    before = await scrape(pod)
    for body in (call(rows=3), call(rows=2), call(value=666), {"inputs": 1}):
        async with await pod.infer(body):
            pass
    samples = await scrape(pod)
    assert samples["penstock_requests_received_total"] == 4
    assert samples["penstock_rows_received_total"] == 6
    assert samples['penstock_requests_total{outcome="Completed",work="interactive"}'] == 2
    assert samples['penstock_served_total{work="interactive"}'] == 5
    assert samples['penstock_served_total{work="batch"}'] == 0
    assert samples['penstock_requests_total{outcome="Failed",work="interactive"}'] == 1
    assert samples['penstock_requests_total{outcome="Expired",work="batch"}'] == 0
    assert samples['penstock_requests_refused_total{reason="BadInput",work="interactive"}'] == 1
    assert samples["penstock_request_duration_seconds_count"] == 2
    assert samples["penstock_batch_size_count"] == 3
    assert samples["penstock_batch_size_sum"] == 6
    assert samples["penstock_batch_cap"] == 8
    assert samples["penstock_batch_cap_bound"] == 128
    assert samples["penstock_limits_generation"] == 1
    assert samples['penstock_pod_info{uid="uid-0"}'] == 1
    batches = samples["penstock_curve_batches_total"] - before["penstock_curve_batches_total"]
    assert batches in (2, 3), "failed runs may not count"
    assert 0 <= samples['penstock_gpu_utilization_ratio{source="EngineBusyShare"}'] <= 1


async def test_the_operator_reads_the_longest_text_that_a_pod_exposes(pod: Any) -> None:
    many, figure = 10**12, 123456789.12345679
    reasons = {
        each.reason
        for each in vars(errors).values()
        if isinstance(each, type) and hasattr(each, "reason")
    }
    for work in (pod.pod.counters.interactive, pod.pod.counters.batch):
        work.rejected.update(dict.fromkeys(map(str, reasons), many))
        work.ended.update(dict.fromkeys(RequestOutcome, many))
    curve = GenerationSums(10**14, (figure,) * len(names.GENERATION_TERMS))
    tokens = GenerationCounters(prefill_tokens=many)
    for histogram in (tokens.first_token_seconds, tokens.token_seconds):
        histogram.observe_all([0.0001] * 100_000)
    report = SimpleNamespace(
        generated_tokens=many, prefix_asked_tokens=many, prefix_hit_tokens=many, preemptions=many,
        surplus=0, curve=curve, previous_curve=curve,
    )  # fmt: skip
    generating = CollectorRegistry()
    figures = SimpleNamespace(tokens=tokens, report=report, cache_usage=lambda: figure)
    generating.register(GenerationCollector(figures))
    async with pod.session.get(f"{pod.cluster_url}/metrics") as reply:
        text = await reply.text() + generate_latest(generating).decode()
    assert names.METRIC_VLLM_WAITING in text
    readings = operator_samples.parse(text)
    known = (*operator_samples.SAMPLE_METRICS, *operator_samples.DURATIONS)
    sizes = [len(line) for line in text.split("\n") if line.startswith(known)]
    assert len(readings) == len(sizes) > 200
    assert max(sizes) < operator_samples.MAX_LINE_LENGTH / 2
    assert sum(sizes) < operator_samples.MAX_LENGTH / 2


async def test_waiting_and_running_follow_the_engine(
    pod: Any, call: Callable[..., Any], until: Any
) -> None:
    pod.model.gate.clear()
    first = asyncio.create_task(pod.infer(call()))
    await until(lambda: pod.pod.admission.load().running == 1)
    others = [asyncio.create_task(pod.infer(call())) for _ in range(3)]
    await until(lambda: pod.pod.admission.load().waiting == 3)
    samples = await scrape(pod)
    assert (samples["penstock_requests_waiting"], samples["penstock_requests_running"]) == (3, 1)
    assert samples['vllm:num_requests_waiting{model_name="halves"}'] == 3
    pod.model.gate.set()
    await asyncio.gather(first, *others)
    samples = await scrape(pod)
    assert (samples["penstock_requests_waiting"], samples["penstock_requests_running"]) == (0, 0)


async def test_the_client_port_shows_metrics_unless_configured_otherwise(start: Any) -> None:
    pod = await start()
    assert "penstock_batch_cap" in await scrape(pod, pod.url)
    pod = await start(client_metrics=False)
    async with pod.session.get(f"{pod.url}/metrics") as reply:
        assert reply.status == 404


def test_a_histogram_counts_bounds_inclusively() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 2, 9):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert histogram.total == pytest.approx(14)
