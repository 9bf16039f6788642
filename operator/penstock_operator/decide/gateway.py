"""`GatewayPlan`: what a pass decides about one pool's route and, for one pool of the namespace, about the gateway itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock_api import names
from penstock_api.hold import HoldLimits
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.gateway import gateway_manifests
from penstock_operator.decide.manifests.service import own_service
from penstock_operator.decide.manifests.writes import delete, shared_write
from penstock_operator.decide.route import (
    DIRECT,
    PoolRoute,
    RouteStep,
    allocate,
    live_route,
    next_route,
)
from penstock_operator.observed import ChildObject, PoolView, RoutedPool


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """The decisions about a pool's route."""

    wanted: bool = False
    """Whether the spec selects mode Gateway."""
    route: PoolRoute = DIRECT
    """The route to bring the Service to."""
    live: PoolRoute = DIRECT
    """The route that the Service is on."""
    obstacle: str = ""
    """Why a wanted route cannot be opened, with the remedy; empty if it can."""
    conflicts: tuple[ChildObject, ...] = ()
    """Objects of other owners under the gateway's names."""
    hold: HoldLimits | None = None
    """How the gateway holds requests that find no pod; None: it answers 503."""
    writes: tuple[ChildWrite, ...] = ()
    """Writes of the gateway's objects; empty for all pools of a namespace but the one that writes them."""

    @property
    def settled(self) -> bool:
        """Return whether the Service is on its route, and no step of it is left."""
        step = self.route.step
        return self.live.step is step and step not in (RouteStep.OPENING, RouteStep.LEAVING)


NOT_INSTALLED = "this installation has no gateway: set gateway.image.repository in the chart, or use routing.mode Service"
NO_PORT = (
    "all ports of the gateway are taken: use routing.mode Service for some pools of this namespace"
)


def gateway_plan(
    view: PoolView,
    all_routed: tuple[RoutedPool, ...],
    config: DecideConfig,
    now: float,
    hold: HoldLimits | None = None,
) -> GatewayPlan:
    """Return the decisions about the pool of `view`.

    `hold` are the limits of a pool that may be at zero. One that may no longer be is held, and stays routed, until one
    of its pods is Ready.
    """
    pool, gateway = view.pool, view.gateway
    neighbors = sorted(
        (other for other in all_routed if other.namespace == pool.namespace),
        key=lambda other: (other.created, other.uid),
    )
    wanted = any(other.uid == pool.uid and other.wanted for other in neighbors)
    service = own_service(view)
    live = live_route(service)
    hold = hold or _kept(view, service)
    if not wanted and live == DIRECT and not gateway.children:
        return GatewayPlan()
    port = allocate(neighbors).get(pool.uid)
    owned = {other.uid for other in neighbors}
    conflicts = tuple(
        item for item in gateway.children.values() if not item.owner_uids & {*owned, pool.uid}
    )
    obstacle = _obstacle(config, port, conflicts) if wanted else ""
    listening = gateway.listening and not obstacle
    if not wanted and hold is not None and live.step is RouteStep.ROUTED:
        route = live
    else:
        announced = port if wanted and (not obstacle or live.port) else None
        route = next_route(live, announced, listening=listening, now=now)
    writes = tuple(_writes(view, neighbors, config)) if not conflicts else ()
    return GatewayPlan(wanted, route, live, obstacle, conflicts, hold, writes)


def _kept(view: PoolView, service: ChildObject | None) -> HoldLimits | None:
    """Return the limits in force while no pod of the pool is Ready."""
    if service is None or any(pod.ready and not pod.terminating for pod in view.pods):
        return None
    annotations = service.manifest["metadata"].get("annotations") or {}
    return HoldLimits.from_annotation(annotations.get(names.ANNOTATION_GATEWAY_HOLD))


def _obstacle(config: DecideConfig, port: int | None, conflicts: tuple[ChildObject, ...]) -> str:
    if config.gateway is None:
        return NOT_INSTALLED
    if conflicts:
        first = conflicts[0]
        return (
            f"{first.kind} {first.name} exists in this namespace and is not the gateway's:"
            " delete or rename it"
        )
    return NO_PORT if port is None else ""


def _writes(
    view: PoolView, neighbors: list[RoutedPool], config: DecideConfig
) -> Iterator[ChildWrite]:
    """Yield the writes of the gateway's objects, if this pool is the oldest that needs them, or the last that did."""
    live = view.gateway.children
    needing = [other for other in neighbors if other.wanted or other.port is not None]
    if not needing:
        yield from (delete(item) for item in live.values() if not item.deleting)
        return
    if config.gateway is None or needing[0].uid != view.pool.uid:
        return
    for manifest in gateway_manifests(view.pool.namespace, needing, config.gateway, config.peers):
        item = live.get((manifest["kind"], manifest["metadata"]["name"]))
        if (write := shared_write(item, manifest)) is not None:
            yield write
    unused = live.get(("NetworkPolicy", names.GATEWAY_NAME))
    if unused is not None and config.peers is None and not unused.deleting:
        yield delete(unused)
