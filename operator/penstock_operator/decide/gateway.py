"""`GatewayPlan`: what a pass decides about one pool's route and, for one pool of the namespace, about the gateway itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.gateway import gateway_manifests
from penstock_operator.decide.manifests.writes import delete, shared_write
from penstock_operator.decide.route import DIRECT, PoolRoute, allocate, live_route, next_route
from penstock_operator.observed import ChildObject, PoolView, RoutedPool


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """The decisions about a pool's route."""

    wanted: bool = False
    """Whether the spec selects mode Gateway."""
    route: PoolRoute = DIRECT
    obstacle: str = ""
    """Why a wanted route cannot be opened, with the remedy; empty if it can."""
    conflicts: tuple[ChildObject, ...] = ()
    """Objects of other owners under the gateway's names."""
    writes: tuple[ChildWrite, ...] = ()
    """Writes of the gateway's objects; empty for all pools of a namespace but the one that writes them."""


NOT_INSTALLED = "this installation has no gateway: set gateway.image.repository in the chart, or use routing.mode Service"
NO_PORT = (
    "all ports of the gateway are taken: use routing.mode Service for some pools of this namespace"
)


def gateway_plan(
    view: PoolView,
    service: ChildObject | None,
    all_routed: tuple[RoutedPool, ...],
    config: DecideConfig,
    now: float,
) -> GatewayPlan:
    """Return the decisions about the pool of `view`, whose own live Service is `service`."""
    pool, gateway = view.pool, view.gateway
    neighbors = sorted(
        (other for other in all_routed if other.namespace == pool.namespace),
        key=lambda other: (other.created, other.uid),
    )
    wanted = any(other.uid == pool.uid and other.wanted for other in neighbors)
    live = live_route(service)
    if not wanted and live == DIRECT and not gateway.children:
        return GatewayPlan()
    port = allocate(neighbors).get(pool.uid)
    owned = {other.uid for other in neighbors}
    conflicts = tuple(
        item for item in gateway.children.values() if not item.owner_uids & {*owned, pool.uid}
    )
    obstacle = _obstacle(config, port, conflicts) if wanted else ""
    listening = gateway.listening and not obstacle
    route = next_route(
        live, port if wanted and (not obstacle or live.port) else None, listening=listening, now=now
    )
    writes = tuple(_writes(view, neighbors, config)) if not conflicts else ()
    return GatewayPlan(wanted, route, obstacle, conflicts, writes)


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
