"""`WaitEstimate`: predicted waits in front of a batch engine."""

import math
from collections.abc import Callable
from typing import Final

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.service_time import ServiceTime
from penstock_runtime.errors import DeadlineTooNear
from penstock_runtime.serving.admission.retry_after import retry_after_seconds
from penstock_runtime.serving.batch.pending_requests import PendingRequests
from penstock_runtime.serving.limits import LiveLimits

_SHARES: Final = 64


def min_wait_seconds(service_time: ServiceTime, rows_ahead: float, cap: int) -> float:
    """Return the shortest time until `rows_ahead` have left the queue in batches of `cap`.

    A partial batch does not count, because the request may share it. Unknown service times predict no wait.
    """
    return math.floor(rows_ahead / cap) * service_time.seconds(cap)


def patience_to_start(patience_seconds: float, batch_seconds: float) -> float:
    """Return how long a request may wait for a batch of `batch_seconds` if its answer is due in `patience_seconds`.

    The batch is rounded up to a share of the patience, so that deadlines of equal patience stay in the order of
    arrival. It takes at most half of the patience.
    """
    share = min(batch_seconds / patience_seconds, 0.5)
    return patience_seconds * (1.0 - math.ceil(_SHARES * share) / _SHARES)


class WaitEstimate:
    """Predicts how long requests wait in front of a batch engine."""

    __slots__ = ("_live", "_pending", "_waiting")

    def __init__(
        self, live: LiveLimits, pending: PendingRequests, waiting: Callable[[], int]
    ) -> None:
        """`waiting` counts the waiting requests of `pending`."""
        self._live = live
        self._pending = pending
        self._waiting = waiting

    def retry_after_seconds(self) -> float:
        """Return the predicted time until the waiting requests are served."""
        live = self._live
        cap = live.effective_cap
        return retry_after_seconds(self._rows_waiting() / cap * live.service_time.seconds(cap))

    def seconds_to_start(self, patience_seconds: float | None) -> float | None:
        """Return how long a request may wait whose answer is due in `patience_seconds` (None: no deadline).

        Its batch, with all pending rows, takes time too: an answer after its deadline is wasted work. The prediction
        takes at most half of the patience, so an idle engine always tries.
        """
        if patience_seconds is None:
            return None
        live = self._live
        seconds = live.service_time.seconds(min(live.effective_cap, self._pending.rows + 1))
        return patience_to_start(patience_seconds, seconds)

    def is_slow(self, timeout_seconds: float, age_seconds: float) -> bool:
        """Return whether a request of that age may miss its timeout, so that `too_late` has to decide."""
        return self._all_pending_seconds() > timeout_seconds / 2 - age_seconds

    def too_late(
        self, timeout_seconds: float, age_seconds: float, priority: int
    ) -> DeadlineTooNear | None:
        """Return the rejection of a request of that age that cannot meet its timeout; None if it may."""
        left = (self.seconds_to_start(timeout_seconds) or 0.0) - age_seconds
        return self.rejection(priority, left)

    def rejection(self, priority: int, left_seconds: float) -> DeadlineTooNear | None:
        """Return the rejection of a request that cannot start within `left_seconds`; None if it may."""
        if self._all_pending_seconds() <= left_seconds:
            return None  # it starts in time even after all pending requests
        live = self._live
        wait = min_wait_seconds(live.service_time, self._rows_ahead(priority), live.effective_cap)
        if wait <= left_seconds:
            return None
        return DeadlineTooNear(
            f"the predicted wait of {wait:.3f} s exceeds the {max(left_seconds, 0):.3f} s that the deadline"
            " leaves: give it more time, or try again later",
            field="parameters.timeout",
            retry_after_seconds=self.retry_after_seconds(),
        )

    def _all_pending_seconds(self) -> float:
        live = self._live
        cap = live.effective_cap
        return self._pending.rows / cap * live.service_time.seconds(cap)

    def _rows_waiting(self) -> float:
        return self._pending.rows * self._waiting() / max(1, len(self._pending))

    def _rows_ahead(self, priority: int) -> float:
        """Return the rows that are certainly served first; none by deadline, by size or by tenant."""
        discipline, rows = self._live.accepted.discipline, self._pending.rows
        share = self._rows_waiting() / max(1, rows)
        if discipline is Discipline.FIRST_IN_FIRST_OUT:
            return rows * share
        if discipline is Discipline.PRIORITY:
            return share * self._pending.classes.rows_up_to(priority)
        return 0.0
