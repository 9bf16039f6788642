"""`BatchSchedPolicy`: runs the event-loop thread under SCHED_BATCH while a long batch runs on the same core.

Each request that arrives during a batch wakes the event loop, and a woken thread preempts the batch: 1,300 times a
second under overload, and each time the batch loses its CPU caches. Under `SCHED_BATCH` a woken thread waits for the
end of the running time slice, about 3 ms, and then handles all that has arrived. Its share of the core stays the same.
Threads that it starts later inherit the policy.
"""

import logging
import os
from typing import Final

LONG_SECONDS: Final = 0.01
"""Duration from which a batch is not preempted: several time slices, so that waiting for one is short."""

log = logging.getLogger(__name__)


class BatchSchedPolicy:
    """Owns the scheduling policy of the calling thread, which is unchanged until the first long batch."""

    def __init__(self) -> None:
        self._former: int | None = None
        """The policy to restore; None: unchanged."""
        self._possible = hasattr(os, "sched_setscheduler")

    def before(self, batch_seconds: float) -> None:
        """Keep wake-ups from preempting a long batch of the engine's thread."""
        if batch_seconds < LONG_SECONDS or not self._possible or self._former is not None:
            return
        try:
            policy = os.sched_getscheduler(0)
            if policy == os.SCHED_OTHER:  # any other policy was chosen by an administrator
                _set(os.SCHED_BATCH)
                self._former = policy
        except OSError as error:
            log.debug(
                "the event loop preempts batches, because SCHED_BATCH cannot be set: %s", error
            )
        self._possible = self._former is not None

    def end(self) -> None:
        """Restore the previous policy."""
        if self._former is not None:
            _set(self._former)
            self._former = None


def _set(policy: int) -> None:
    os.sched_setscheduler(0, policy, os.sched_param(0))
