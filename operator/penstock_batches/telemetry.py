"""Metrics of the batch service, computed at each scrape from its state."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from penstock_api.batch_rate import required_rate
from penstock_batches.dispatch.dispatcher import Dispatcher
from penstock_batches.dispatch.recorder import AnswerRecorder
from penstock_batches.dispatch.sender import Sender
from penstock_batches.payloads import Payloads
from penstock_batches.records import Status
from penstock_batches.work.supervisor import Supervisor
from penstock_batches.work.webhooks import Webhooks

PREFIX = "penstock_batches"


class BatchesCollector(Collector):
    """Collects from the parts of the service."""

    def __init__(  # noqa: PLR0913, PLR0917  its parts
        self,
        supervisor: Supervisor,
        dispatcher: Dispatcher,
        sender: Sender,
        recorder: AnswerRecorder,
        payloads: Payloads,
        webhooks: Webhooks,
    ) -> None:
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._sender = sender
        self._recorder = recorder
        self._payloads = payloads
        self._webhooks = webhooks

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        yield from self._batches()
        in_flight = _gauge("lines_in_flight", "Lines that a pool computes", "model")
        window = _gauge("window_lines", "Lines that may be in flight to a pool", "model")
        for model, gate in self._dispatcher.gates.items():
            in_flight.add_metric([model], gate.in_flight)
            window.add_metric([model], int(gate.window.size))
        yield in_flight
        yield window
        yield _counter(
            "lines",
            "Answers by end: Output, Error, or Discarded since it came too late",
            "end",
            self._recorder.recorded,
        )
        yield _counter(
            "answered_lines",
            "Lines of a model that were answered here, without and with an error",
            "model",
            {model: self._dispatcher.answered[model] for model in self._dispatcher.gates},
        )
        yield _counter(
            "attempts",
            "Requests to pools by status, or Lost or Unreachable",
            "status",
            self._sender.attempts,
        )
        yield _counter(
            "webhook_calls",
            "Calls of webhooks by status, or Failed without one",
            "status",
            self._webhooks.calls,
        )
        free = GaugeMetricFamily(f"{PREFIX}_volume_free_bytes", "Room on the volume of payloads")
        if self._payloads.last_free_bytes is not None:
            free.add_metric([], self._payloads.last_free_bytes)
        yield free

    def _batches(self) -> Iterable[Metric]:
        now = time.time()
        active = self._supervisor.active
        batches = _gauge("active", "Batches that have not ended", "status")
        for status, count in Counter(batch.status.value for batch, _ in active).items():
            batches.add_metric([status], count)
        yield batches
        left = _gauge("lines_left", "Lines of batches in progress without an answer", "model")
        rate = _gauge(
            "required_lines_per_second",
            "Lowest rate at which a model's batches end in time, the nearest deadline first",
            "model",
        )
        soonest = _gauge(
            "seconds_to_deadline", "Time until the next batch of a model expires", "model"
        )
        by_model: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for batch, counts in active:
            if batch.model is not None and batch.status is Status.IN_PROGRESS:
                by_model[batch.model].append((max(1.0, batch.expires_at - now), counts.left))
        for model, loads in by_model.items():
            left.add_metric([model], sum(lines for _, lines in loads))
            rate.add_metric([model], required_rate(loads))
            soonest.add_metric([model], min(seconds for seconds, _ in loads))
        yield left
        yield rate
        yield soonest


def _gauge(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=[label])


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
