"""`BatchSchedPolicy`: runs the event-loop thread under SCHED_BATCH while a long batch runs on the same core.

Every request that comes while a batch runs wakes the event loop, and a thread that wakes takes the core at once: 1,300
times a second under overload, each time with what the batch had in its caches. Under `SCHED_BATCH` a thread that wakes
waits for the end of the running one's slice, some 3 ms, and then does all that has come. It gets no less of the core.
Threads that it starts from then on do as it does.
"""

import logging
import os
from typing import Final

LONG_SECONDS: Final = 0.01
"""A batch so long is not interrupted: some slices, so that what waits for one does not show in a request's time."""

log = logging.getLogger(__name__)


class BatchSchedPolicy:
    """Owns the scheduling policy of the thread that calls it: its own until the first long batch."""

    def __init__(self) -> None:
        self._former: int | None = None
        """The policy to go back to; None: nothing was changed."""
        self._possible = hasattr(os, "sched_setscheduler")

    def before(self, batch_seconds: float) -> None:
        """Defer to a batch of the engine's thread, if it is long."""
        if batch_seconds < LONG_SECONDS or not self._possible or self._former is not None:
            return
        try:
            policy = os.sched_getscheduler(0)
            if policy == os.SCHED_OTHER:  # else an administrator chose
                _set(os.SCHED_BATCH)
                self._former = policy
        except OSError as error:
            log.debug("the event loop interrupts batches: %s", error)
        self._possible = self._former is not None

    def end(self) -> None:
        """Go back to the former policy."""
        if self._former is not None:
            _set(self._former)
            self._former = None


def _set(policy: int) -> None:
    os.sched_setscheduler(0, policy, os.sched_param(0))
