"""Prometheus metrics of a pod, rendered from plain counters at scrape time: requests pay for no label look-up.

Names are those of `penstock_api.names`; relabelling adds `pool`, `namespace` and `pod`.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from penstock_api import names
from penstock_api.pod_contract import CurveSums
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.counters import histogram_family
from penstock_runtime.serving.pod import Pod
from penstock_runtime.telemetry.gpu import DutyMeter


class PodCollector(Collector):
    """All metrics of one pod; `meter` is absent until the model is loaded."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self.meter: DutyMeter | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        yield from self._requests()
        yield from self._histograms()
        yield from self._limits()
        yield from _curve(self._pod.live.curve)
        yield from self._device()

    def _requests(self) -> Iterator[Metric]:
        counters, load = self._pod.counters, self._pod.admission.load()
        yield _gauge(
            names.METRIC_REQUESTS_WAITING,
            "Requests that wait for a batch, or for a slot among the running generations, including preempted ones; without batch work.",
            load.waiting,
        )
        yield _gauge(
            names.METRIC_REQUESTS_RUNNING,
            "Requests in the running batch, or with a running sequence.",
            load.running,
        )
        yield _counter(
            names.METRIC_REQUESTS_RECEIVED,
            "Requests received, before admission.",
            counters.received,
        )
        yield _counter(
            names.METRIC_ROWS_RECEIVED,
            "Rows received, before admission, without batch work; estimated for bodies rejected unread.",
            counters.rows_received,
        )
        served = CounterMetricFamily(
            names.METRIC_SERVED,
            "Rows of completed requests, or generated tokens, by kind of work.",
            labels=["work"],
        )
        ended = CounterMetricFamily(
            names.METRIC_REQUESTS,
            "Admitted requests, by outcome and kind of work; a request that another pod completed is HandedOver here.",
            labels=["outcome", "work"],
        )
        rejected = CounterMetricFamily(
            names.METRIC_REQUESTS_REFUSED,
            "Requests rejected at admission, by kind of work as far as the head shows it.",
            labels=["reason", "work"],
        )
        for work, of_work in (("interactive", counters.interactive), ("batch", counters.batch)):
            served.add_metric([work], of_work.served)
            for outcome in RequestOutcome:
                ended.add_metric([outcome.value, work], of_work.ended[outcome])
            for reason, number in sorted(of_work.rejected.items()):
                rejected.add_metric([reason, work], number)
        yield from (served, ended, rejected)
        model = [self._pod.config.model_name]
        for alias, value in (
            (names.METRIC_VLLM_WAITING, load.waiting),
            (names.METRIC_VLLM_RUNNING, load.running),
            (names.METRIC_VLLM_CACHE, self._pod.cache_usage()),
        ):
            family = GaugeMetricFamily(
                alias, "For the Gateway API endpoint picker.", labels=["model_name"]
            )
            family.add_metric(model, value)
            yield family

    def _histograms(self) -> Iterator[Metric]:
        counters = self._pod.counters
        yield histogram_family(
            names.METRIC_REQUEST_DURATION,
            "Completed requests, from arrival to end.",
            counters.request_seconds,
        )
        yield histogram_family(
            names.METRIC_TIME_IN_QUEUE,
            "Completed requests, from arrival to the start of their batch.",
            counters.queue_seconds,
        )
        yield histogram_family(names.METRIC_BATCH_SIZE, "Rows of a batch.", counters.batch_rows)
        yield histogram_family(
            names.METRIC_BATCH_DURATION, "Device time of a batch.", counters.batch_seconds
        )
        yield _counter(
            names.METRIC_OUT_OF_MEMORY_SPLITS,
            "Batches split because they exceeded the device's memory.",
            counters.out_of_memory_splits,
        )

    def _limits(self) -> Iterator[Metric]:
        live = self._pod.live
        yield _gauge(
            names.METRIC_BATCH_CAP, "The batch cap in force.", live.in_force.max_batch_size
        )
        if live.report is not None:
            yield _gauge(
                names.METRIC_BATCH_CAP_BOUND, "The largest cap that memory allows.", live.cap_bound
            )
        yield _gauge(
            names.METRIC_LIMITS_GENERATION,
            "Generation of the limits in force.",
            live.in_force.generation,
        )

    def _device(self) -> Iterator[Metric]:
        if self._pod.config.pod.uid:
            info = GaugeMetricFamily(names.METRIC_POD_INFO, "Identity of the pod.", labels=["uid"])
            info.add_metric([self._pod.config.pod.uid], 1)
            yield info
        if self.meter is None:
            return
        duty = self.meter.duty()
        family = GaugeMetricFamily(
            names.METRIC_GPU_UTILIZATION, "GPU duty of the last 5 s, 0 to 1.", labels=["source"]
        )
        family.add_metric([duty.source.value], duty.ratio)
        yield family
        memory = self.meter.memory()
        if memory is not None:
            family = GaugeMetricFamily(names.METRIC_GPU_MEMORY, "GPU memory.", labels=["kind"])
            family.add_metric(["used"], memory.memory_used)
            family.add_metric(["total"], memory.memory_total)
            yield family


class Exposition:
    """Registry of one pod, rendered in the format that a scraper accepts."""

    def __init__(self, pod: Pod) -> None:
        self.collector = PodCollector(pod)
        self._registry = CollectorRegistry()
        self._registry.register(self.collector)
        for collector in pod.collectors():
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type for an `Accept` header."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def _curve(sums: CurveSums) -> Iterator[Metric]:
    yield _counter(names.METRIC_CURVE_BATCHES, "Service curve: batches.", sums.batches)
    yield _counter(names.METRIC_CURVE_COST, "Service curve: sum of rows b.", sums.cost_units)
    yield _counter(
        names.METRIC_CURVE_COST_SQUARED, "Service curve: sum of b^2.", sums.cost_units_squared
    )
    yield _counter(names.METRIC_CURVE_SECONDS, "Service curve: sum of seconds t.", sums.seconds)
    yield _counter(
        names.METRIC_CURVE_COST_SECONDS, "Service curve: sum of b*t.", sums.cost_unit_seconds
    )
    yield _counter(
        names.METRIC_CURVE_SECONDS_SQUARED, "Service curve: sum of t^2.", sums.seconds_squared
    )
    family = CounterMetricFamily(
        names.METRIC_CURVE_BY_SIZE,
        "Service curve: batches, rows and seconds of batches of up to `size` rows, and over half as many.",
        labels=["size", "term"],
    )
    for place, value in enumerate(sums.by_size):
        size_class, term = divmod(place, len(names.SIZE_TERMS))
        family.add_metric([str(2**size_class), names.SIZE_TERMS[term]], value)
    yield family


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
