"""`Reflector`: the objects of a kind, kept equal to the API server's by one list and a watch.

Whatever fails, the objects of before stay: an API server that is away, restarts or answers errors changes nothing. A
watch that ends opens again from the last resourceVersion. An expired version (410) lists again, and so do failures in a
row, since a watch that keeps ending may hide changes; the new list replaces the objects at once.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from penstock_gateway.errors import VersionExpired, WatchError
from penstock_gateway.kube.api_server import ApiServer, Bookmark, Deleted, WatchedResource
from penstock_gateway.objects import WatchedPod, WatchedService

log = logging.getLogger(__name__)

BACKOFF_SECONDS: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0)
"""Delays after failures in a row, each up to half as long again, so that gateways do not return in step.

The last stays below the 5 s for which a pod accepts requests after its deletion timestamp: pods that are deleted as
soon as the API server has returned are known before they refuse any.
"""

FAILURES_BEFORE_LIST: Final = 4
"""Failures in a row after which the objects are listed again."""

MIN_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner, without an event, counts as a failure, so that it cannot spin."""

T = TypeVar("T", WatchedService, WatchedPod)


class Reflector(Generic[T]):
    """The objects of a kind; `objects` is None before the first list."""

    def __init__(
        self,
        api: ApiServer,
        resource: WatchedResource[T],
        on_change: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._api = api
        self._resource: WatchedResource[T] = resource
        self._on_change = on_change
        self._now = now
        self._version: str | None = None
        """Where the next watch begins; None: list first."""
        self._failures = 0
        self._by_name: dict[str, T] = {}
        self._listed = False
        self.last_contact: float | None = None
        """Time of the API server's last answer; None: there was none."""

    @property
    def plural(self) -> str:
        """The kind's name in paths."""
        return self._resource.plural

    @property
    def objects(self) -> list[T] | None:
        """The objects, in no order; None: no list succeeded yet."""
        return list(self._by_name.values()) if self._listed else None

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._follow()
            except VersionExpired as error:
                log.info("%s: listing again: %s", self.plural, error)
                self._version = None
                self._failures = 0  # the API server is there: what came before it is over
                await self._back_off()
            except WatchError as error:
                log.warning("%s: %s; the objects known stay in force", self.plural, error)
                await self._back_off()
                if self._failures >= FAILURES_BEFORE_LIST:
                    self._version = None

    async def _follow(self) -> None:
        if self._version is None:
            objects, version = await self._api.list(self._resource)
            self._listed = True
            self._by_name = {item.metadata.name: item for item in objects}
            self._record(version)
            self._on_change()
        begin = self._now()
        async with aclosing(self._api.watch(self._resource, self._version or "")) as events:
            async for event in events:
                if isinstance(event, Bookmark):
                    self._record(event.version)
                    continue
                name = event.object.metadata.name
                if isinstance(event, Deleted):
                    self._by_name.pop(name, None)
                else:
                    self._by_name[name] = event.object
                self._record(event.object.metadata.version)
                self._on_change()
                begin = float("-inf")
        if self._now() - begin < MIN_WATCH_SECONDS:
            raise WatchError("a watch ended at once")
        self.last_contact = self._now()

    def _record(self, version: str) -> None:
        self._version = version
        self._failures = 0
        self.last_contact = self._now()

    async def _back_off(self) -> None:
        delay = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        await asyncio.sleep(delay * random.uniform(1, 1.5))  # noqa: S311  spread, not secrecy
