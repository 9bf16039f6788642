"""`BatchSchedPolicy`: runs the event-loop thread under SCHED_BATCH while a long batch runs on the same core.

Each request that arrives during a batch wakes the event loop, and a thread that wakes preempts the batch: 1,300 times a
second under overload, and each time the batch loses its caches. Under `SCHED_BATCH` a thread that wakes waits for the
end of the running slice, about 3 ms, and then handles all that has arrived. Its share of the core stays the same.
Threads that it starts later inherit the policy.
"""

import logging
import os
from typing import Final

LONG_SECONDS: Final = 0.01
"""Shortest batch that is not preempted: several slices, so that the wait for one is small compared with the batch."""

log = logging.getLogger(__name__)


class BatchSchedPolicy:
    """Owns the scheduling policy of the thread that calls it: its own until the first long batch."""

    def __init__(self) -> None:
        self._former: int | None = None
        """The policy to restore; None: unchanged."""
        self._possible = hasattr(os, "sched_setscheduler")

    def before(self, batch_seconds: float) -> None:
        """Let a long batch of the engine's thread run without preemption."""
        if batch_seconds < LONG_SECONDS or not self._possible or self._former is not None:
            return
        try:
            policy = os.sched_getscheduler(0)
            if policy == os.SCHED_OTHER:  # otherwise an administrator chose it
                _set(os.SCHED_BATCH)
                self._former = policy
        except OSError as error:
            log.debug("the event loop interrupts batches: %s", error)
        self._possible = self._former is not None

    def end(self) -> None:
        """Restore the former policy."""
        if self._former is not None:
            _set(self._former)
            self._former = None


def _set(policy: int) -> None:
    os.sched_setscheduler(0, policy, os.sched_param(0))
