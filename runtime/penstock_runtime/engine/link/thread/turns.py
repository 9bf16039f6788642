"""`TurnScheduler`: schedules the turns of an engine in the event loop."""

import asyncio
from collections.abc import Callable

from penstock_runtime.engine.model import describe


class TurnScheduler:
    """Owns the next turn: whether one is scheduled, and the timer of a later one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        turn: Callable[[], None],
        die: Callable[[str], None],
    ) -> None:
        """`die` takes the reason when a turn raises."""
        self._loop = loop
        self._clock = clock
        self._turn = turn
        self._die = die
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Schedule a turn in the next iteration of the loop, unless one is scheduled."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def after_reading(self) -> None:
        """Schedule a turn after the loop has read its sockets, so that clients just served can join the batch."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._loop.call_soon, self.run)

    def at(self, time: float) -> None:
        """Schedule a turn at `time`, unless an earlier turn cancels it."""
        self._timer = self._loop.call_later(max(0.0, time - self._clock()), self.soon)

    def run(self) -> None:
        """Run a turn now."""
        self._scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._turn()
        except BaseException as error:  # noqa: BLE001  a model may even call sys.exit
            self._die(describe(error))
