"""`serving`: assembles the parts of the service and runs them until it is stopped."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from penstock_api.api_keys import ApiKeyRing
from penstock_batches.config import BatchSettings
from penstock_batches.dispatch.dispatcher import Dispatcher
from penstock_batches.dispatch.recorder import AnswerRecorder
from penstock_batches.dispatch.sender import Sender
from penstock_batches.errors import StoreUnavailable
from penstock_batches.http.batches import BatchRoutes
from penstock_batches.http.caller import TenantAuthenticator
from penstock_batches.http.connections import client_connections
from penstock_batches.http.files import FileRoutes
from penstock_batches.http.infer import InferRoutes
from penstock_batches.http.server import client_app, listening, status_app
from penstock_batches.payloads import Payloads
from penstock_batches.pools import Pools
from penstock_batches.store.base import Store
from penstock_batches.store.redis import RedisStore, RedisTls
from penstock_batches.store.sqlite import SqliteStore
from penstock_batches.telemetry import BatchesCollector
from penstock_batches.work.finalizer import Finalizer
from penstock_batches.work.intake import Intake
from penstock_batches.work.supervisor import Supervisor
from penstock_batches.work.sweeper import Sweeper
from penstock_batches.work.webhooks import Webhooks

log = logging.getLogger(__name__)

OPEN_RETRY_SECONDS: Final = 1.0
VOLUME_SECONDS: Final = 15.0
"""Time between two measurements of the room on the volume."""
CANCEL_SECONDS: Final = 0.5


def make_store(settings: BatchSettings) -> Store:
    """Return the store that the settings choose."""
    if settings.store == "Redis":
        files = (settings.redis_ca_file, settings.redis_cert_file, settings.redis_key_file)
        tls = RedisTls(*(Path(file) if file else None for file in files))
        return RedisStore(settings.redis_url, settings.namespace, tls)
    return SqliteStore(settings.store_folder)


class BatchService:
    """The parts of the service, which share a store and a volume."""

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        owner = secrets.token_hex(8)
        self.ring = ApiKeyRing(Path(settings.api_keys_file)) if settings.api_keys_file else None
        self.store = make_store(settings)
        self.payloads = Payloads(settings.payload_folder)
        self.pools = Pools(settings)
        self.callers = TenantAuthenticator(self.ring)
        self.recorder = AnswerRecorder(self.store, self.payloads, owner)
        self.sender = Sender(settings, self.payloads, self.pools, self.ring)
        self.dispatcher = Dispatcher(settings, self.store, self.sender, self.recorder, owner)
        self.webhooks = Webhooks(self.store, owner, settings.webhook_secret_file)
        finalizer = Finalizer(self.store, self.payloads, settings.file_days)
        self.sweeper = Sweeper(self.store, self.payloads, finalizer, settings.file_days)
        self.supervisor = Supervisor(
            self.store,
            self.pools,
            Intake(self.store, self.payloads, self.pools, self.recorder),
            finalizer,
            self.webhooks,
            owner,
            self.dispatcher.wake,
        )
        self.files = FileRoutes(settings, self.store, self.payloads, self.callers)
        self.batches = BatchRoutes(self.store, self.files, self.callers, self._batches_changed)
        self.infer = InferRoutes(
            settings, self.store, self.payloads, self.pools, self.callers, self._batches_changed
        )
        self.opened = False
        """Whether the store is open, and the service does not stop."""
        self.port = self.status_port = 0
        """Ports of clients and of health and metrics, once they listen."""

    @property
    def routes(self) -> list[Callable[[web.Application], None]]:
        """What registers the routes of clients."""
        return [self.files.add_to, self.batches.add_to, self.infer.add_to]

    async def open(self) -> None:
        """Open the store, for as long as it takes, and prepare the volume."""
        await asyncio.to_thread(self.payloads.prepare)
        while True:
            try:
                await self.store.open()
                break
            except StoreUnavailable as error:
                log.warning("the store cannot be opened, and is tried again: %s", error)
                await asyncio.sleep(OPEN_RETRY_SECONDS)
        self.opened = True

    @property
    def ready(self) -> bool:
        """Whether clients may send requests."""
        return self.opened and self.callers.ready

    async def dispatch(self) -> None:
        """Dispatch once the API keys are read: before, every tenant seems to have none."""
        await self.callers.known()
        await self.dispatcher.run()

    async def watch_volume(self) -> None:
        """Measure the room on the volume again and again, off the event loop: a server of volumes may hang."""
        while True:
            try:
                await asyncio.to_thread(self.payloads.free_bytes)
            except OSError as error:
                log.warning("the room on the volume is unknown: %s", error)
            await asyncio.sleep(VOLUME_SECONDS)

    def status(self) -> dict[str, object]:
        """Return what `/status` shows without authentication: the batches that have not ended, with their counts and without tenants."""
        batches = [
            {
                "id": batch.id,
                "model": batch.model,
                "status": batch.status.value,
                "created_at": batch.created_at,
                "expires_at": batch.expires_at,
                "counts": {
                    "total": counts.total,
                    "completed": counts.completed,
                    "failed": counts.failed,
                },
            }
            for batch, counts in self.supervisor.active
        ]
        return {"batches": batches, "models": self.pools.models}

    def _batches_changed(self) -> None:
        self.supervisor.wake()
        self.dispatcher.wake()


@asynccontextmanager
async def serving(settings: BatchSettings) -> AsyncIterator[BatchService]:
    """Serve clients and dispatch; at the end, drain."""
    service = BatchService(settings)
    registry = CollectorRegistry()
    collector = BatchesCollector(
        service.supervisor,
        service.dispatcher,
        service.sender,
        service.recorder,
        service.payloads,
        service.webhooks,
    )
    registry.register(collector)
    status = status_app(registry, lambda: service.ready, service.status)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.sender.close)
        await asyncio.to_thread(service.webhooks.check_secret)
        await asyncio.to_thread(service.payloads.prepare)
        status_port = await stack.enter_async_context(
            listening(status, settings.host, settings.status_port)
        )
        stack.push_async_callback(service.store.close)
        await service.open()
        stack.push_async_callback(service.webhooks.close)
        clients = client_app(service.routes)
        most = client_connections(settings.max_in_flight)
        background = [
            asyncio.create_task(run)
            for run in (service.callers.watch(), service.pools.watch(), service.recorder.run())
        ]
        background += [
            asyncio.create_task(service.supervisor.run()),
            asyncio.create_task(service.sweeper.run()),
            asyncio.create_task(service.dispatch()),
            asyncio.create_task(service.watch_volume()),
        ]
        try:
            async with listening(clients, settings.host, settings.port, most) as port:
                service.port, service.status_port = port, status_port
                log.info("listening", extra={"port": port, "status_port": status_port})
                yield service
            service.opened = False
            await service.dispatcher.drain(settings.drain_seconds)
        finally:
            await stopped(background)
            await stopped(service.supervisor.tasks)


async def stopped(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel `tasks` until they have ended: a cancellation that meets the end of a call to Redis gets lost in its client."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_SECONDS)
