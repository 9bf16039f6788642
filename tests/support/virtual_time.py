"""`virtual_time`: fires the timers of an event loop in order and without waiting, however little processor time the test gets.

For tests without I/O only.
"""

import asyncio
from typing import Any


def virtual_time(loop: asyncio.AbstractEventLoop) -> None:
    """Stop the clock of `loop` while callbacks run, and advance it to the next timer when none is ready."""
    private: Any = loop
    select, now = private._selector.select, loop.time()

    def step(timeout: float | None) -> Any:
        nonlocal now
        if timeout is None:
            return select(None)
        now += max(timeout, 0.0)
        return select(0)

    private._selector.select = step
    private.time = lambda: now
