"""Progress lines: every wait says what it waits for, how long it took, and at last why it failed."""

import os
import sys
import time
from collections.abc import Callable

CLOCK = "PENSTOCK_CLOCK"
"""Environment variable with the start of a run of several programs, in seconds of the machine's monotonic clock."""
_started = float(os.environ.get(CLOCK) or time.monotonic())


class WaitTimedOutError(Exception):
    """A wait came to its end without the thing waited for."""


def share_clock() -> None:
    """Let the programs that this one starts count their seconds from this one's start."""
    os.environ[CLOCK] = str(_started)


def say(line: str) -> None:
    """Print one progress line with the seconds since the run's start, to stderr."""
    print(f"[{time.monotonic() - _started:6.1f} s] {line}", file=sys.stderr, flush=True)


def wait_until(
    what: str,
    probe: Callable[[], str | None],
    *,
    timeout_seconds: float,
    interval_seconds: float = 0.1,
    report_seconds: float = 5.0,
) -> None:
    """Call `probe` until it returns None; anything else is the reason it is not yet so.

    Raises:
        WaitTimedOutError: the last reason, after `timeout_seconds`.
    """
    started = reported = time.monotonic()
    say(f"waiting for {what}")
    while (reason := probe()) is not None:
        now = time.monotonic()
        if now - started > timeout_seconds:
            raise WaitTimedOutError(f"{what}: not within {timeout_seconds:.0f} s: {reason}")
        if now - reported > report_seconds:
            reported = now
            say(
                f"still waiting for {what} ({now - started:.0f} of {timeout_seconds:.0f} s): {reason}"
            )
        time.sleep(interval_seconds)
    say(f"{what}: so, after {time.monotonic() - started:.1f} s")
