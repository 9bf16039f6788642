"""`virtual_time`: timers of an event loop that are due as soon as nothing else is left to run, in the order of their times.

A process that gets no processor time for a while cannot change what happens first. Only for tests without I/O.
"""

import asyncio
from typing import Any


def virtual_time(loop: asyncio.AbstractEventLoop) -> None:
    """Let the clock of `loop` stand still while callbacks run, and step to the next timer where none is left."""
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
