"""`PodConnection`: one end of the connection between the HTTP processes of two pods, with signs of life both ways."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from penstock_runtime.engine.link.local_ranks import ASLEEP_SECONDS, SILENT_SECONDS
from penstock_runtime.engine.link.pods.messages import Beat, PodMessage, decode, encode

BEAT_SECONDS: Final = 1.0


class PodConnection:
    """Sends and receives `PodMessage`s; a beat is sent every second while it listens."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock

    @property
    def own_address(self) -> str:
        """Address of this end."""
        return str(self._writer.get_extra_info("sockname")[0])

    @property
    def other_address(self) -> str:
        """Address of the other end."""
        return str(self._writer.get_extra_info("peername")[0])

    def send(self, message: PodMessage) -> None:
        """Send a message; ignored once the connection is closed."""
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    def close(self) -> None:
        """Close the connection after the last message."""
        self._writer.close()

    async def listen(self, deliver: Callable[[PodMessage], None]) -> str:
        """Deliver messages until the connection ends, and return why it ended."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                began = self._clock()
                try:
                    async with asyncio.timeout(SILENT_SECONDS):
                        line = await self._reader.readline()
                    message = decode(line) if line else None
                except TimeoutError:
                    silent = self._clock() - began
                    if silent > SILENT_SECONDS + ASLEEP_SECONDS:
                        continue
                    return f"it hangs or cannot be reached: no sign of life for {silent:.0f} s"
                except OSError as error:
                    return f"its connection broke: {error.strerror or error}"
                except ValueError:
                    return "it sent data that is not a pod-group message"
                if message is None:
                    return "it has closed its connection: its process ended"
                if not isinstance(message, Beat):
                    deliver(message)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self.send(Beat())
            await asyncio.sleep(BEAT_SECONDS)
