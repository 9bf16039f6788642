"""Takes the place of the process of a rank: tests load it, fail it and end it."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed

OUR_KILL = "the engine's process was killed by SIGKILL (out of memory?)"


class RankLink:
    """A rank that loads until the test says more; a kill fails its load a moment later, as with a process."""

    def __init__(self) -> None:
        self.killed = False
        self._loading: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._deliver: Callable[[Any], None]

    async def start(self, deliver: Callable[[Any], None]) -> Any:
        self._deliver = deliver
        return await asyncio.shield(self._loading)

    def heartbeat(self) -> Heartbeat:
        now = asyncio.get_running_loop().time()
        return Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def kill(self) -> None:
        self.killed = True
        asyncio.get_running_loop().call_later(0.01, self.fail, OUR_KILL)

    async def close(self) -> None:
        """Return: there is no process."""

    # -- what the test does

    def load(self, info: Any = None) -> None:
        self._loading.set_result(info)

    def fail(self, reason: str) -> None:
        if not self._loading.done():
            self._loading.set_exception(ModelLoadFailed(reason))
            self._loading.exception()  # marks it as retrieved: nothing waits for it after a kill

    def die(self, reason: str) -> None:
        """Report the end of a loaded rank, unless it was killed."""
        if not self.killed:
            self._deliver(EngineDied(reason))
