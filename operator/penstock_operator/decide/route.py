"""The route of a pool: whether its Service selects the pods or the namespace's gateway, and the steps in between.

Direct  -> Opening: the Service announces the listener's port, and clients still reach the pods.
Opening -> Routed:  every ready pod of the gateway listens, so the Service selects the gateway.
Routed  -> Leaving: the Service selects the pods again, and the listener stays for those who still connect to it.
Leaving -> Direct:  LEAVING_SECONDS later.

The step is read from the annotations and the selector of the live Service, so a restart of the operator loses nothing. A
gateway that is not ready any more does not move a routed pool: that would be another change in the middle of a fault.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock_api import names
from penstock_operator.observed import ChildObject, RoutedPool

LEAVING_SECONDS = 30.0
"""Time for which a listener outlives its Service: kube-proxy follows a Service within seconds."""


class RouteStep(StrEnum):
    """Step of a pool on its way into the gateway or out of it."""

    DIRECT = "Direct"
    OPENING = "Opening"
    ROUTED = "Routed"
    LEAVING = "Leaving"


@dataclass(frozen=True, slots=True)
class PoolRoute:
    """The route of a pool."""

    step: RouteStep
    port: int | None = None
    """Port of the listener in the gateway; None while there is none."""
    left_at: int | None = None
    """Unix seconds at which the Service began to select the pods again."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations of the Service that record this step."""
        kept = {
            names.ANNOTATION_GATEWAY_PORT: self.port,
            names.ANNOTATION_GATEWAY_LEFT: self.left_at,
        }
        return {name: str(value) for name, value in kept.items() if value is not None}


DIRECT = PoolRoute(RouteStep.DIRECT)


def live_route(service: ChildObject | None) -> PoolRoute:
    """Return the route that a live Service is on."""
    if service is None:
        return DIRECT
    annotations = service.manifest["metadata"].get("annotations") or {}
    port = _number(annotations.get(names.ANNOTATION_GATEWAY_PORT))
    if port is None:
        return DIRECT
    if names.LABEL_GATEWAY in (service.manifest["spec"].get("selector") or {}):
        return PoolRoute(RouteStep.ROUTED, port)
    left_at = _number(annotations.get(names.ANNOTATION_GATEWAY_LEFT))
    return PoolRoute(RouteStep.OPENING if left_at is None else RouteStep.LEAVING, port, left_at)


def next_route(live: PoolRoute, port: int | None, *, listening: bool, now: float) -> PoolRoute:
    """Return the route to bring the Service to.

    `port` is the pool's port in the gateway, None if it is not to be routed; `listening`: every ready pod of the gateway
    listens on it.
    """
    if port is not None:
        opened = listening and live.step is not RouteStep.DIRECT and live.port == port
        routed = live.step is RouteStep.ROUTED and live.port == port
        return PoolRoute(RouteStep.ROUTED if opened or routed else RouteStep.OPENING, port)
    if live.step is RouteStep.ROUTED:
        return PoolRoute(RouteStep.LEAVING, live.port, int(now))
    left_at = min(live.left_at or 0, int(now))
    if live.step is RouteStep.LEAVING and now - left_at < LEAVING_SECONDS:
        return PoolRoute(RouteStep.LEAVING, live.port, left_at)
    return DIRECT


def allocate(pools: Iterable[RoutedPool]) -> Mapping[str, int]:
    """Return the port of every routed pool of a namespace, by UID.

    A pool keeps the port of its Service; where two have the same, the older pool keeps it. A new pool gets the smallest
    port that no Service has. More pools than ports: the newest have none.
    """
    by_age = sorted(pools, key=lambda pool: (pool.created, pool.uid))
    ports: dict[str, int] = {}
    for pool in by_age:
        if pool.port is not None and _allowed(pool.port) and pool.port not in ports.values():
            ports[pool.uid] = pool.port
    taken = set(ports.values()) | {pool.port for pool in by_age}
    low, high = names.GATEWAY_PORTS
    free = (port for port in range(low, high + 1) if port not in taken)
    for pool in by_age:
        if pool.wanted and pool.uid not in ports and (port := next(free, None)) is not None:
            ports[pool.uid] = port
    return {pool.uid: ports[pool.uid] for pool in by_age if pool.wanted and pool.uid in ports}


def _allowed(port: int) -> bool:
    low, high = names.GATEWAY_PORTS
    return low <= port <= high


def _number(text: str | None) -> int | None:
    """Return the number in an annotation; None if it is absent or was edited by hand."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
