"""`LocalRanks`: the ranks of one pod, each the child of a `ProcessLink`: started, watched and ended together."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock_runtime.engine.link.group import start_together
from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.messages import EngineDied

SILENT_SECONDS: Final = 6.0
"""Time without a pulse after which a rank counts as hung; a rank pulses every second."""
LOOK_SECONDS: Final = 0.5
"""Interval of the checks for silent ranks."""
ASLEEP_SECONDS: Final = 3.0
"""Interval between two checks above which this process was suspended, and perhaps the ranks too."""


class LocalRanks:
    """Owns the processes, and the folder in which they meet, which is removed at the end."""

    def __init__(
        self,
        links: Sequence[ProcessLink[Any, Any, Any]],
        named: Callable[[int, str], str],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`named` words what is known of the link with an index."""
        self.folder = folder
        self._links = links
        self._named = named
        self._clock = clock
        self._ended = False
        """Whether they were closed or killed."""
        self._watching: asyncio.Task[None] | None = None

    async def start(self, deliver: Callable[[Any], None], lose: Callable[[str], None]) -> list[Any]:
        """Load all ranks and return their descriptions; `lose` gets the words of each that is lost later.

        Raises:
            ModelLoadFailed: one of them did not load; all are killed.
        """

        def receive(index: int, message: Any) -> None:
            if isinstance(message, EngineDied):
                self._lose(index, message.reason, lose)
            elif message is not None and not self._ended:
                deliver(message)

        infos = await start_together(self._links, receive, self._named)
        self._watching = asyncio.create_task(self._watch(lose))
        return infos

    def kill(self) -> None:
        """Kill all ranks without waiting."""
        self._ended = True
        for link in self._links:
            link.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def close(self) -> None:
        """Let the ranks finish their step and end."""
        self._ended = True
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.gather(*(link.close() for link in self._links))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _lose(self, index: int, reason: str, lose: Callable[[str], None]) -> None:
        if not self._ended:
            lose(self._named(index, reason))

    async def _watch(self, lose: Callable[[str], None]) -> None:
        """Check the pulse of every rank until one is silent."""
        looked_at = awake_since = self._clock()
        while not self._ended:
            now = self._clock()
            if now - looked_at > ASLEEP_SECONDS:
                awake_since = now
            looked_at = now
            for index, link in enumerate(self._links):
                silent = now - max(link.heartbeat().alive_at, awake_since)
                if silent > SILENT_SECONDS:
                    self._lose(index, f"it hangs: no sign of life for {silent:.0f} s", lose)
                    return
            await asyncio.sleep(LOOK_SECONDS)
