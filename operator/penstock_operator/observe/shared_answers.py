"""`SharedAnswers`: what is read of a namespace once for all of its pools."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True)
class SharedAnswers(Generic[Answer]):
    """The newest answer of each namespace; it is reused below an age of `seconds`, and dropped after it."""

    seconds: float
    _read: dict[str, tuple[float, asyncio.Task[Answer]]] = field(default_factory=dict)
    """Time and answer by namespace, in order of the reads."""

    def __len__(self) -> int:
        return len(self._read)

    async def of(
        self, namespace: str, now: float, read: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """Return the answer of a namespace at `now`, by `read` if there is none or it is old."""
        while self._read:
            oldest = next(iter(self._read))
            if 0 <= now - self._read[oldest][0] < self.seconds:
                break
            del self._read[oldest]
        if namespace not in self._read:
            self._read[namespace] = now, asyncio.create_task(read())
        # shielded: cancelling one caller must not cancel the read of the others
        return await asyncio.shield(self._read[namespace][1])

    def forget(self, namespace: str) -> None:
        """Drop the answer of a namespace, so that it is read again."""
        self._read.pop(namespace, None)
