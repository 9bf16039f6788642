"""`TunedSettings` and the space that is searched, and the result of a measurement. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

MAX_DELAY_SHARE = 0.5
"""Limit of the batching window relative to the objective: a longer one leaves no time for the batch."""
MAX_RATE_SHARE = 0.8
"""Limit of the open loop's rate relative to the goodput of the closed loop: above it queues only grow."""


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """Settings of one trial."""

    batch_size: int
    """The batch cap, in rows: `batching.size.max`."""
    queue_delay_milliseconds: int
    """The batching window: `batching.maxQueueDelayMilliseconds`."""
    backend: str | None = None
    """`model.backend`; None: as in the model's spec."""
    threads: int | None = None
    """Threads of one operation; None: as in the environment."""
    discipline: str | None = None
    """`batching.discipline`; None: as the pod has it."""
    dtype: str | None = None
    """`model.dtype`; None: as in the model's spec."""

    @property
    def process(self) -> tuple[str | None, int | None, str | None]:
        """The settings that a pod takes at its start only."""
        return (self.backend, self.threads, self.dtype)

    def as_json(self) -> dict[str, Any]:
        """Return the settings that are set."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The values that are tried."""

    max_batch_size: int
    max_queue_delay_milliseconds: int
    backends: tuple[str, ...] = ()
    """Empty: not searched."""
    threads: tuple[int, ...] = ()
    """Empty: not searched."""
    disciplines: tuple[str, ...] = ()
    """Empty: not searched."""
    dtypes: tuple[str, ...] = ()
    """Empty: not searched."""


@dataclass(frozen=True, slots=True)
class TuningObjective:
    """The latency that counts as on time, and the share of requests that must be."""

    milliseconds: int
    percent: float = 99.0


@dataclass(frozen=True, slots=True)
class LoadMeasurement:
    """What a pod did under load."""

    seconds: float
    completed: int
    on_time: int
    failed: int
    """Requests that were rejected or ended with an error."""
    p50_milliseconds: float
    p99_milliseconds: float

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
