"""kopf watches of the served scope: one set of watches per `WatchScope`; the sets fail independently.

kopf itself retries a rejected watch forever, 403 included (`handlers.EndlessBackoff`); `Resync` decides what a
rejection means. kopf's own `operator` ends every task of the process with it, and its last call takes the signal handlers;
so the watches here wait for kopf's tasks, and install the signal handlers after them.
"""

import asyncio
import logging
import signal
from collections.abc import Collection
from dataclasses import dataclass, field
from http import HTTPStatus

import kopf
from kopf._cogs.clients.errors import APIError  # not exported by kopf's top level
from kopf._core.engines.peering import Identity  # likewise

from penstock_operator.kube.scope import Scope, WatchScope
from penstock_operator.observe.cluster import handlers
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Enqueue, Resync

WATCHER = "watcher for "
"""Prefix of the names of kopf's tasks that watch one kind."""
CANCEL_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watches:
    """Watches every part of a scope and fills the store."""

    scope: Scope
    store: ObjectStore
    resync: Resync
    enqueue: Enqueue
    identity: str
    """Identity for kopf, which otherwise looks up the user name: the image's UID 65532 has no passwd entry."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end the watches; a signal sets it too."""

    async def run(self) -> None:
        """Watch until `stopping` is set.

        Raises:
            Exception: the error that ended a watch; a watch never ends without one.
        """
        tasks = [
            asyncio.create_task(self._watch(watch), name=f"watch {watch}")
            for watch in self.scope.watches
        ]
        tasks.append(asyncio.create_task(_wait_for(self.stopping), name="signals"))
        await _first_of(tasks)

    async def _watch(self, watch: WatchScope) -> None:
        """Watch one part of the scope; restart if a list took longer than its continue token is valid.

        Objects that were read until then stay in the store.
        """
        while True:
            try:
                await self._watch_once(watch)
            except APIError as error:
                if error.status != HTTPStatus.GONE:
                    raise
                log.warning(
                    "%s: the continue token of a list expired; restarting the watches;"
                    " give the operator more CPU",
                    watch,
                )  # fmt: skip
            else:
                return

    async def _watch_once(self, watch: WatchScope) -> None:
        within = [watch.namespace] if watch.namespace is not None else []
        tasks = await kopf.spawn_tasks(
            registry=handlers.registry(self.store, self.resync, self.enqueue, watch),
            settings=handlers.settings(),
            clusterwide=not within,
            namespaces=within,
            standalone=True,
            identity=Identity(self.identity),
        )
        for number in (signal.SIGINT, signal.SIGTERM):  # after kopf, which installed its own
            asyncio.get_running_loop().add_signal_handler(number, self.stopping.set)
        try:
            await _first_of(tasks)
        finally:
            await _cancel(_watchers(watch))


def _watchers(watch: WatchScope) -> set[asyncio.Task[None]]:
    """Return kopf's tasks that watch a kind in this part of the scope: when one fails, kopf leaves the others running."""
    return {
        task
        for task in asyncio.all_tasks()
        if task.get_name().startswith(WATCHER) and task.get_name().endswith(f"@{watch.namespace}")
    }


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: a task that is about to reconnect may lose a cancellation."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)


async def _wait_for(stopping: asyncio.Event) -> None:
    await stopping.wait()
    log.info("stopping")


async def _first_of(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait for the first task to end, cancel the others, and raise its error."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()
