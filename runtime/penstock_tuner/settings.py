"""`TunedSettings` and the space that is searched, and the result of a measurement. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock_api.types.objectives import ObjectiveMetric

ROUNDS = 3
"""Rounds of a trial, each twice as long as the one before."""
PROMPT_TOKENS, OUTPUT_TOKENS = (128,), (64,)
"""Lengths of prompts and answers that are assumed without a history."""
MAX_DELAY_SHARE = 0.5
"""Limit of the batching window relative to the objective: a longer one leaves no time for the batch."""
MAX_RATE_SHARE = 0.8
"""Limit of the open loop's rate relative to the goodput of the closed loop: above it queues only grow."""


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """Settings of one trial."""

    batch_size: int
    """The batch cap, in rows or sequences: `batching.size.max`."""
    queue_delay_milliseconds: int | None
    """The batching window: `batching.maxQueueDelayMilliseconds`; None: the model generates text, without a window."""
    backend: str | None = None
    """`model.backend`, or `generation.computeBackend`; None: as in the pod's spec."""
    threads: int | None = None
    """Threads of one operation; None: as in the environment."""
    discipline: str | None = None
    """`batching.discipline`; None: as the pod has it."""
    dtype: str | None = None
    """`model.dtype`; None: as in the model's spec."""
    batched_tokens: int | None = None
    """`batching.maxBatchedTokens`, tokens of a step, at least the batch cap; None: chosen by the pod."""

    @property
    def process(self) -> tuple[str | None, int | None, str | None]:
        """The settings that a pod takes at its start only."""
        return (self.backend, self.threads, self.dtype)

    def as_json(self) -> dict[str, Any]:
        """Return the settings that are set."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "TunedSettings":
        """Return the settings of `as_json`."""
        return cls(**{"queue_delay_milliseconds": None, **given})


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The values that are tried."""

    max_batch_size: int
    max_queue_delay_milliseconds: int | None
    """None: the model has no window."""
    backends: tuple[str, ...] = ()
    """Empty: not searched."""
    threads: tuple[int, ...] = ()
    """Empty: not searched."""
    disciplines: tuple[str, ...] = ()
    """Empty: not searched."""
    dtypes: tuple[str, ...] = ()
    """Empty: not searched."""
    batched_tokens: tuple[int, ...] = ()
    """Empty: not searched."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of one request, in seconds."""

    request: float
    first_token: float | None = None
    """None: the request generates no text."""
    output_token: float | None = None
    """Mean time between tokens after the first; None: there is at most one."""

    def of(self, metric: ObjectiveMetric) -> float:
        """Return the latency that an objective limits, 0 where the request has none."""
        known = {
            ObjectiveMetric.REQUEST_LATENCY: self.request,
            ObjectiveMetric.TIME_TO_FIRST_TOKEN: self.first_token,
            ObjectiveMetric.TIME_PER_OUTPUT_TOKEN: self.output_token,
        }[metric]
        return known or 0.0


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that was rejected or failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """A limit of one latency."""

    metric: ObjectiveMetric
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TuningObjective:
    """The latencies that count as on time, and the share of requests that must be."""

    milliseconds: int
    """Limit of `metric`."""
    percent: float = 99.0
    metric: ObjectiveMetric = ObjectiveMetric.REQUEST_LATENCY
    also: tuple[LatencyLimit, ...] = ()
    """Limits that a request must meet too."""

    @property
    def limits(self) -> tuple[LatencyLimit, ...]:
        """All limits; figures of latency are those of the first."""
        return (LatencyLimit(self.metric, self.milliseconds), *self.also)

    def admits(self, latencies: Latencies) -> bool:
        """Return whether a request was on time."""
        return all(1000 * latencies.of(limit.metric) <= limit.milliseconds for limit in self.limits)

    def score(self, measured: "LoadMeasurement") -> float:
        """Return the goodput, divided by how many times the permitted share was late, if that is more than once."""
        late, allowed = 1 - measured.attainment, 1 - self.percent / 100
        return measured.goodput * (1.0 if measured.meets(self) else allowed / late)

    def text(self) -> str:
        """Return the limits in words."""
        return " and ".join(f"{LATENCY_NAMES[each.metric]}{each.milliseconds} ms" for each in self.limits)  # fmt: skip


LATENCY_NAMES = {
    ObjectiveMetric.REQUEST_LATENCY: "",
    ObjectiveMetric.TIME_TO_FIRST_TOKEN: "first token ",
    ObjectiveMetric.TIME_PER_OUTPUT_TOKEN: "output token ",
}


@dataclass(frozen=True, slots=True)
class LoadMeasurement:
    """What a pod did under load."""

    seconds: float
    completed: int
    on_time: int
    failed: int
    """Requests that were rejected or ended with an error."""
    p50_milliseconds: float
    """Of the latency that the objective limits first, as the 99th percentile."""
    p99_milliseconds: float
    refusal: str = ""
    """Reason of the last request that failed."""

    @property
    def goodput(self) -> float:
        """Requests on time per second."""
        return self.on_time / self.seconds

    @property
    def attainment(self) -> float:
        """Share of the requests that were on time, 0 to 1; 0 without any."""
        ended = self.completed + self.failed
        return self.on_time / ended if ended else 0.0

    def meets(self, objective: TuningObjective) -> bool:
        """Return whether enough requests were on time."""
        return 100 * self.attainment >= objective.percent

    def joined(self, other: "LoadMeasurement") -> "LoadMeasurement":
        """Return both as one measurement; its percentiles are means by requests, since no latencies are kept."""
        ended = max(self.completed + other.completed, 1)

        def mean(mine: float, others: float) -> float:
            return (mine * self.completed + others * other.completed) / ended

        return LoadMeasurement(
            self.seconds + other.seconds,
            self.completed + other.completed,
            self.on_time + other.on_time,
            self.failed + other.failed,
            mean(self.p50_milliseconds, other.p50_milliseconds),
            mean(self.p99_milliseconds, other.p99_milliseconds),
            other.refusal or self.refusal,
        )
