"""What a drain still serves: what the service curve says will finish by its deadline."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock_runtime.engine.service_time import ServiceTime
from penstock_runtime.request import Failed, Request


@dataclass(frozen=True, slots=True)
class Draining:
    """A drain in progress; `deadline` is of the monotonic clock."""

    deadline: float
    retry_after_seconds: float

    def reaches_all(self, rows: int, cap: int, service_time: ServiceTime, now: float) -> bool:
        """Return whether `rows`, served from `now` in batches of `cap`, finish before the deadline."""
        return now + service_time.seconds_for_all(rows, cap) < self.deadline

    def beyond(
        self, in_order: Iterable[Request], cap: int, service_time: ServiceTime, now: float
    ) -> list[Request]:
        """Return those that will not finish in time when all are served in this order."""
        rows, beyond = 0, []
        for request in in_order:
            if self.reaches_all(rows + request.rows, cap, service_time, now):
                rows += request.rows
            else:
                beyond.append(request)
        return beyond

    def refusal(self) -> Failed:
        """Return the end of a request that the drain will not serve."""
        return Failed("draining", self.retry_after_seconds)
