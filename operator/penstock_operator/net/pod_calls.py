"""`PodCalls`: bounds the concurrent calls to the pods of one pool, so that its silent pods delay no other pool."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock_operator.net.http import CallFailed, NoResponse

CALLS: Final = 512
"""Maximum concurrent calls to the pods of all pools."""
POOL_CALLS: Final = 32
"""Maximum concurrent calls to the pods of one pool."""

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class PodCalls:
    """The calls to one pool's pods, by pod UID: scrapes and pushes share the bound. A call's time begins when it has its turn."""

    _all: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS))
    """Shared by all pools."""
    _own: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(POOL_CALLS))
    _silent: dict[str, None] = field(default_factory=dict)
    """Pods that did not respond to their last call, the latest last."""

    async def run(
        self, calls: Mapping[str, Callable[[], Awaitable[Answer]]]
    ) -> Mapping[str, Answer | CallFailed]:
        """Make the calls, those to silent pods last; the result of a call that failed is its `CallFailed`.

        Once `POOL_CALLS` pods were silent, no more are called: their pass would last a time limit longer for each
        `POOL_CALLS`. The next run begins with those that were not called.
        """
        missed: set[str] = set()

        async def answer(uid: str) -> Answer | CallFailed:
            async with self._own, self._all:
                if len(missed) >= POOL_CALLS:
                    return CallFailed("was not called: other pods of the pool did not respond")
                self._silent.pop(uid, None)
                try:
                    return await calls[uid]()
                except NoResponse as error:
                    missed.add(uid)
                    self._silent[uid] = None
                    return error
                except CallFailed as error:
                    return error

        silent = [uid for uid in self._silent if uid in calls]
        order = [*(uid for uid in calls if uid not in self._silent), *silent]
        return dict(zip(order, await asyncio.gather(*map(answer, order)), strict=True))

    def keep(self, live: Collection[str]) -> None:
        """Drop what is known of deleted pods; `live` are the UIDs of the others."""
        self._silent = {uid: None for uid in self._silent if uid in live}
