"""kopf's watches, one set a place. One that is refused is asked for again and again by kopf itself.

kopf's own `operator` takes every task of the process with it when it ends, and the last one started takes the
signals; so its tasks are waited for here, and the signals are ours.
"""

import asyncio
import logging
import signal
from collections.abc import Collection
from dataclasses import dataclass, field
from http import HTTPStatus

import kopf
from kopf._cogs.clients.errors import APIError  # kopf's own top level does not name it
from kopf._core.engines.peering import Identity  # likewise

from penstock_operator.kube.scope import Scope, WatchScope
from penstock_operator.observe.cluster import handlers
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Enqueue, Resync

WATCHER = "watcher for "
"""What kopf calls its tasks that watch one kind in one place."""
END_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watches:
    """Watches every place of a scope and fills the store."""

    scope: Scope
    store: ObjectStore
    resync: Resync
    enqueue: Enqueue
    identity: str
    """Said where kopf would ask the password file for a user: the image's 65532 has no entry there."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, by a signal too: the watches end."""

    async def run(self) -> None:
        """Watch until told to stop.

        Raises:
            Exception: whatever ended a watch; none ends of itself.
        """
        parts = [
            asyncio.create_task(self._watch(place), name=f"watch {place}")
            for place in self.scope.places
        ]
        parts.append(asyncio.create_task(_until(self.stopping), name="signals"))
        await _first_of(parts)

    async def _watch(self, place: WatchScope) -> None:
        """Watch a place; begin anew where a list took longer than the API server keeps its continuation.

        What was seen until then stays in the store.
        """
        while True:
            try:
                await self._watch_once(place)
            except APIError as error:
                if error.status != HTTPStatus.GONE:
                    raise
                log.warning(
                    "%s: a list took so long that the API server has forgotten where it was, and begins anew;"
                    " give the operator more CPU",
                    place,
                )  # fmt: skip
            else:
                return

    async def _watch_once(self, place: WatchScope) -> None:
        within = [place.namespace] if place.namespace is not None else []
        tasks = await kopf.spawn_tasks(
            registry=handlers.registry(self.store, self.resync, self.enqueue, place),
            settings=handlers.settings(),
            clusterwide=not within,
            namespaces=within,
            standalone=True,
            identity=Identity(self.identity),
        )
        for number in (signal.SIGINT, signal.SIGTERM):  # after kopf, which took them
            asyncio.get_running_loop().add_signal_handler(number, self.stopping.set)
        try:
            await _first_of(tasks)
        finally:
            await _end(_watchers(place))


def _watchers(place: WatchScope) -> set[asyncio.Task[None]]:
    """Return kopf's tasks that watch a kind there: one that fails leaves the others behind, which nobody would ever end."""
    return {
        task
        for task in asyncio.all_tasks()
        if task.get_name().startswith(WATCHER) and task.get_name().endswith(f"@{place.namespace}")
    }


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel until they have ended: one that is just about to ask again may miss a word."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=END_SECONDS)


async def _until(stopping: asyncio.Event) -> None:
    await stopping.wait()
    log.info("told to stop")


async def _first_of(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait for the first task to end, end the others, and raise what it raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()
