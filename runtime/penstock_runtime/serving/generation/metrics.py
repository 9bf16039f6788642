"""`GenerationCollector`: metrics of generation, in addition to those of every pod."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock_api import names
from penstock_runtime.engine.continuous.messages import GenerationReport
from penstock_runtime.serving.counters import histogram_family
from penstock_runtime.serving.generation.counters import GenerationCounters


class GenerationFigures(Protocol):
    """The sources of the metrics of generation."""

    tokens: GenerationCounters
    report: GenerationReport | None

    def cache_usage(self) -> float:
        """Return the share of the KV cache that is in use."""


class GenerationCollector(Collector):
    """Renders plain numbers on scrape."""

    def __init__(self, pod: GenerationFigures) -> None:
        self._pod = pod

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        tokens = self._pod.tokens
        yield histogram_family(
            names.METRIC_TIME_TO_FIRST_TOKEN,
            "Completed requests, from arrival to their first token.",
            tokens.first_token_seconds,
        )
        yield histogram_family(
            names.METRIC_TIME_PER_OUTPUT_TOKEN,
            "Completed requests, mean time between tokens after the first.",
            tokens.token_seconds,
        )
        yield CounterMetricFamily(
            names.METRIC_PROMPT_TOKENS_RECEIVED,
            "Prompt tokens of requests that were read.",
            value=tokens.prompt_tokens_received,
        )
        yield _labelled(
            names.METRIC_HANDOVERS,
            "Generations that a drain handed over to another pod, that were taken over, and that no pod completed.",
            "result",
            {
                "handed_over": tokens.handed_over,
                "taken_over": tokens.taken_over,
                "failed": tokens.handovers_failed,
            },
        )
        if self._pod.report is not None:
            yield from self._engine(self._pod.report)

    def _engine(self, report: GenerationReport) -> Iterator[Metric]:
        yield _labelled(
            names.METRIC_TOKENS,
            "Tokens by the phase that computed them, recomputed ones included.",
            "phase",
            {"prefill": self._pod.tokens.prefill_tokens, "decode": report.generated_tokens},
        )
        yield _labelled(
            names.METRIC_PREFIX_CACHE_TOKENS,
            "Prompt tokens looked up in the prefix cache, and found.",
            "result",
            {"asked": report.prefix_asked_tokens, "hit": report.prefix_hit_tokens},
        )
        yield CounterMetricFamily(
            names.METRIC_PREEMPTIONS,
            "Preemptions of running generations.",
            value=report.preemptions,
        )
        yield GaugeMetricFamily(
            names.METRIC_BATCH_SURPLUS,
            "Generations that run above a lowered cap, until they finish.",
            value=report.surplus,
        )
        yield GaugeMetricFamily(
            names.METRIC_KV_CACHE_USAGE,
            "Share of the KV cache that running generations hold.",
            value=self._pod.cache_usage(),
        )
        curve = CounterMetricFamily(
            names.METRIC_GENERATION_CURVE,
            "Service curve: sums over steps of products of 1, p/256, d, k/4096, t.",
            labels=["epoch", "term"],
        )
        for sums in (report.previous_curve, report.curve):
            for term, value in zip(names.GENERATION_TERMS, sums.sums if sums else (), strict=False):
                curve.add_metric([str(sums.epoch if sums else 0), term], value)
        yield curve


def _labelled(name: str, text: str, label: str, values: dict[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
