"""`Gateway`: what it watches becomes what Envoy is sent."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock_api import names
from penstock_gateway.certificates import CHECK_SECONDS, CertificateStore
from penstock_gateway.config import GatewaySettings
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.hold.holder import Holder
from penstock_gateway.hold.server import holding
from penstock_gateway.hold.starts import progress
from penstock_gateway.kube.api_server import ApiServer, WatchedResource
from penstock_gateway.kube.reflector import Reflector
from penstock_gateway.objects import WatchedPod, WatchedService
from penstock_gateway.resources.pools import Configuration, Kind, configuration
from penstock_gateway.signals import ListenerSignals
from penstock_gateway.snapshot import Snapshot, deleted, draining, pools_of, snapshot
from penstock_gateway.xds.server import AdsServer
from penstock_gateway.xds.session import DeliveryState, RejectedVersion

log = logging.getLogger(__name__)

SERVICES: Final = WatchedResource("services", WatchedService, names.LABEL_POOL)
PODS: Final = WatchedResource("pods", WatchedPod, names.LABEL_POOL_UID)


def leaving(
    before: Mapping[str, float],
    former: Collection[str],
    routed: Collection[str],
    now: float,
    drain_seconds: float,
) -> dict[str, float]:
    """Return the time at which the cluster of each pool that is not `routed` any more is removed; one that is kept counts as routed."""
    ends = {pool: now + drain_seconds for pool in former if pool not in routed}
    ends |= {pool: end for pool, end in before.items() if end > now and pool not in routed}
    return ends


class Gateway:
    """Watches the namespace and delivers its configuration to Envoy; `now` is a monotonic clock."""

    def __init__(
        self,
        settings: GatewaySettings,
        api: ApiServer,
        admin: EnvoyAdmin,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._now = now
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        """Set at the first snapshot."""
        self._services = Reflector(api, SERVICES, self._changed.set, now)
        self._pods = Reflector(api, PODS, self._changed.set, now)
        self._certificates = CertificateStore(Path(settings.tls_folder))
        self._configuration: Configuration | None = None
        begin = time.time() - now()
        self.holder = Holder(
            admin, self._pods_in_force, self._progress, lambda: begin + now(), time.time
        )
        self._ads = AdsServer(settings.ads_socket, self.holder.wake)
        self._leaving: Mapping[str, float] = {}
        """Time at which the cluster of a pool without a listener is removed, by pool."""
        self.snapshot = Snapshot()

    @property
    def connected(self) -> bool:
        """Whether an Envoy is connected."""
        return self._ads.session is not None

    @property
    def ready(self) -> bool:
        """Whether the connected Envoy acknowledged a first snapshot."""
        return self._ads.ready

    def rejections(self) -> Mapping[tuple[Kind, str], RejectedVersion]:
        """Return what Envoy rejected, by kind and pool."""
        return self._ads.rejections()

    def watch_ages(self) -> Mapping[str, float | None]:
        """Return the seconds since the API server's last answer, by resource; None: there was none."""
        return {
            reflector.plural: None
            if reflector.last_contact is None
            else self._now() - reflector.last_contact
            for reflector in (self._services, self._pods)
        }

    def status(self, signals: ListenerSignals | None) -> dict[str, Any]:
        """Return the state of every pool, for people and for the operator; None: Envoy does not answer."""
        rejections, demand = self.rejections(), self.holder.held()
        last = self.holder.starts.last
        return {
            "ready": self.ready,
            "envoyConnected": self.connected,
            "watchAgeSeconds": self.watch_ages(),
            "pools": {
                route.pool: {
                    "port": route.port,
                    "endpoints": [f"{pod.address}:{pod.port}" for pod in route.endpoints],
                    "holds": route.hold is not None,
                    "held": demand.get(route.pool),
                    "lastStart": last[route.pool].as_json() if route.pool in last else None,
                    "offered": None if signals is None else signals.offered.get(route.pool, 0),
                    "inFlight": None if signals is None else signals.in_flight.get(route.pool, 0),
                    "resources": {
                        kind.name.title(): state.value
                        for kind, state in self._ads.states(route.pool).items()
                    },
                    "certificateProblem": self._certificates.problems.get(route.pool),
                    "rejections": [
                        {"resource": kind.name.title(), "message": rejection.message}
                        for (kind, pool), rejection in rejections.items()
                        if pool == route.pool
                    ],
                }
                for route in self.snapshot.routes.values()
            },
            "unroutableServices": dict(self.snapshot.problems),
        }

    async def run(self) -> None:
        """Serve until cancelled."""
        self._certificates.refresh()
        await self._ads.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hold())
                tasks.create_task(self._services.run())
                tasks.create_task(self._pods.run())
                tasks.create_task(self._deliver())
                tasks.create_task(self._watch_certificates())
        finally:
            await self._ads.stop()

    async def _hold(self) -> None:
        """Hold requests from the first snapshot on: until then Envoy's hold listener keeps them."""
        await self._known.wait()
        async with holding(self.holder, self._settings.hold_socket):
            await self.holder.run()

    async def _watch_certificates(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._certificates.refresh():
                self._changed.set()

    async def _deliver(self) -> None:
        while True:
            await self._next_change()
            services, pods = self._services.objects, self._pods.objects
            if services is None or pods is None:
                continue  # nothing is in force that a half-read cluster could contradict
            for pool in self.holder.starts.under_way:
                self.holder.starts.reach(pool, self._progress(pool), self.holder.now())
            fresh = snapshot(services, pods, self._settings, self._certificates.known)
            self._leaving = leaving(
                self._leaving,
                self.snapshot.served,
                fresh.served,
                self._now(),
                self._settings.drain_seconds,
            )
            fresh = replace(fresh, draining=draining(self._leaving, pods))
            if fresh == self.snapshot and self._configuration is not None:
                continue
            self._log_problems(fresh)
            self.snapshot = fresh
            self.holder.update(fresh.served, deleted(fresh.draining, services))
            self._known.set()
            self._configuration = configuration(fresh, self._settings, self._configuration)
            self._ads.replace(self._configuration)

    async def _next_change(self) -> None:
        """Wait for a change of the cluster, or for the time at which a pool's connections have ended."""
        end = min(self._leaving.values(), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if end is None else max(0.0, end - self._now())):
                await self._changed.wait()
        self._changed.clear()

    def _progress(self, pool: str) -> int:
        """Return how many parts of a start are over, by the pool's pods as the API server last reported them."""
        return progress(pod for pod in self._pods.objects or () if pool in pools_of(pod))

    def _pods_in_force(self, pool: str) -> int:
        """Return the pods of a pool that Envoy acknowledged as its endpoints."""
        route = self.snapshot.served.get(pool)
        accepted = self._ads.states(pool).get(Kind.ENDPOINTS) is DeliveryState.ACCEPTED
        return len(route.endpoints) if route is not None and accepted else 0

    def _log_problems(self, fresh: Snapshot) -> None:
        for service, problem in fresh.problems.items():
            if self.snapshot.problems.get(service) != problem:
                log.error("Service %s is not routed: %s", service, problem)
