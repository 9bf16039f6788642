"""`Session`: what one Envoy has in force, what it rejected, and what it is sent next. Pure: no I/O, no clock.

Each response carries one resource, so that Envoy's answer names the pool: a rejected resource leaves that pool's last
good one in force and delays no other pool. A pool's cluster goes first, its endpoints after the cluster is accepted,
its listener after both: no request meets a listener without pods. A certificate goes when Envoy subscribes to it for the listener, and
until then the former listener stays. A removed pool goes in the opposite order, its cluster when it no longer drains.
Of a pool that is kept nothing is removed. The readiness listener goes last, after every pool is settled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final

from penstock_gateway.resources.pools import READINESS, Configuration, EnvoyResource, Kind

ON_DEMAND: Final = frozenset({Kind.ENDPOINTS, Kind.SECRET})
"""Kinds that Envoy subscribes to by name when it has what refers to them, and drops with it."""


@dataclass(frozen=True, slots=True)
class DeltaRequest:
    """A request of Envoy: a subscription, an ACK or a NACK of a response, or both."""

    type_url: str
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions in force, by name; in the first request of a kind after a connection only."""
    nonce: str = ""
    error: str | None = None
    """Why Envoy rejected the response `nonce`; None: it did not."""


@dataclass(frozen=True, slots=True)
class DeltaResponse:
    """A response with one resource, one removal, or neither."""

    kind: Kind
    nonce: str
    resource: EnvoyResource | None = None
    removed: str | None = None


class DeliveryState(StrEnum):
    """Where a resource is on its way to Envoy."""

    PENDING = "Pending"
    SENT = "Sent"
    ACCEPTED = "Accepted"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class RejectedVersion:
    """A version that Envoy rejected, and its reason."""

    version: str
    message: str


@dataclass(slots=True)
class Delivery:
    """A resource's versions: in force, on the way, rejected."""

    in_force: str | None = None
    sent: DeltaResponse | None = None
    rejected: RejectedVersion | None = None

    def state(self, wanted: str) -> DeliveryState:
        """Return the state of version `wanted`."""
        if self.sent is not None:
            return DeliveryState.SENT
        if self.rejected is not None and self.rejected.version == wanted:
            return DeliveryState.REJECTED
        return DeliveryState.ACCEPTED if self.in_force == wanted else DeliveryState.PENDING


class Session:
    """One connection of an Envoy. Nothing is sent before the first configuration, so that nothing is removed either."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration
        self._deliveries: dict[tuple[Kind, str], Delivery] = {}
        self._in_flight: dict[str, tuple[Kind, str] | None] = {}
        self._subscribed: dict[Kind, set[str]] = {}
        self._answered: set[Kind] = set()
        self._due: dict[str, None] = {}
        """Names whose resources changed or were answered for, in order: those that may have something to send."""
        self._unsettled: set[str] = set()
        """Pools that readiness waits for."""
        self._nonces = count(1)

    @property
    def ready(self) -> bool:
        """Whether Envoy has the readiness listener: it accepted or rejected every resource of a first snapshot."""
        return self._known(Kind.LISTENER, READINESS).in_force is not None

    def replace(self, configuration: Configuration) -> None:
        """Deliver `configuration` from now on."""
        former = self._configuration.delivered if self._configuration else {}
        fresh = configuration.delivered
        self._configuration = configuration
        self._visit(
            *(name for name in {**former, **fresh} if former.get(name) is not fresh.get(name))
        )
        if not former:  # what a former server delivered may have to go
            self._visit(*(name for _, name in self._deliveries))

    def receive(self, request: DeltaRequest) -> None:
        """Record what Envoy subscribes to, accepted or rejected."""
        try:
            kind = Kind(request.type_url)
        except ValueError:
            return  # a kind that this server has no resources of
        if kind not in self._subscribed:
            self._subscribed[kind] = set()
            for name, version in request.versions.items():
                if kind is Kind.ENDPOINTS and self._known(Kind.CLUSTER, name).sent is not None:
                    continue  # named before Envoy got the changed cluster, for which it waits for them again
                self._deliveries[kind, name] = Delivery(in_force=version)
            self._visit(*(name for _, name in self._deliveries), *self._delivered())
        self._subscribed[kind].update(request.subscribe)
        self._visit(*request.subscribe)
        for name in request.unsubscribe:
            self._subscribed[kind].discard(name)
            self._deliveries.pop((kind, name), None)
        if request.nonce in self._in_flight:
            self._settle(request)

    def responses(self) -> Iterator[DeltaResponse]:
        """Yield what can be sent now; each resource has at most one version on the way."""
        configuration = self._configuration
        if configuration is None:
            return
        due, self._due = list(self._due), {}
        for kind in Kind:
            if kind in self._subscribed:
                for name in due:
                    yield from self._of_name(kind, name, configuration.find(kind, name))
        self._unsettled.difference_update(name for name in due if self._settled(name))
        if Kind.LISTENER in self._subscribed and not self._unsettled:
            yield from self._of_name(Kind.LISTENER, READINESS, configuration.readiness)
        yield from self._empty()

    def states(self, pool: str) -> Mapping[Kind, DeliveryState]:
        """Return the states of a pool's resources."""
        return {kind: self._state(kind, pool) for kind in self._kinds(pool)}

    def rejections(self) -> Mapping[tuple[Kind, str], RejectedVersion]:
        """Return the rejected resources that are still wanted, by kind and pool."""
        return {
            key: delivery.rejected
            for key, delivery in self._deliveries.items()
            if delivery.rejected is not None and self._state(*key) is DeliveryState.REJECTED
        }

    def _of_name(
        self, kind: Kind, name: str, resource: EnvoyResource | None
    ) -> Iterator[DeltaResponse]:
        if resource is None:
            if self._known(kind, name) == Delivery(rejected=self._known(kind, name).rejected):
                self._deliveries.pop((kind, name), None)  # Envoy never had it
            elif self._may_remove(kind, name):
                yield self._send(kind, name, None)
        elif self._may_send(resource):
            yield self._send(kind, name, resource)

    def _empty(self) -> Iterator[DeltaResponse]:
        """Yield empty first responses: Envoy starts no further before the first of a kind, even if it holds nothing."""
        for kind in (Kind.CLUSTER, Kind.LISTENER):
            if kind in self._subscribed and kind not in self._answered:
                self._answered.add(kind)
                nonce = str(next(self._nonces))
                self._in_flight[nonce] = None
                yield DeltaResponse(kind, nonce)

    def _visit(self, *names: str) -> None:
        self._due.update(dict.fromkeys(name for name in names if name != READINESS))
        self._unsettled.update(filter(self._is_routed, names))

    def _delivered(self) -> Mapping[str, object]:
        return self._configuration.delivered if self._configuration else {}

    def _is_routed(self, pool: str) -> bool:
        return self._configuration is not None and pool in self._configuration.pools

    def _send(self, kind: Kind, name: str, resource: EnvoyResource | None) -> DeltaResponse:
        nonce = str(next(self._nonces))
        response = DeltaResponse(kind, nonce, resource, None if resource else name)
        self._deliveries.setdefault((kind, name), Delivery()).sent = response
        if kind is Kind.CLUSTER:
            # Envoy waits for the endpoints of a changed cluster, even if it has them, and answers only then
            self._deliveries.pop((Kind.ENDPOINTS, name), None)
        self._in_flight[nonce] = (kind, name)
        self._answered.add(kind)
        return response

    def _settle(self, request: DeltaRequest) -> None:
        key = self._in_flight.pop(request.nonce)
        delivery = self._deliveries.get(key) if key else None
        if key is None or delivery is None or delivery.sent is None:
            return
        if delivery.sent.nonce != request.nonce:
            return  # an answer to a version that a later one replaced
        resource, delivery.sent = delivery.sent.resource, None
        self._visit(key[1])
        if resource is None:
            self._deliveries.pop(key)
        elif request.error is not None:
            delivery.rejected = RejectedVersion(resource.version, request.error)
        else:
            delivery.in_force, delivery.rejected = resource.version, None

    def _may_send(self, resource: EnvoyResource) -> bool:
        if self._state(resource.kind, resource.name) is not DeliveryState.PENDING:
            return False
        if resource.name == READINESS:
            return True
        if resource.kind in ON_DEMAND:
            return resource.name in self._subscribed[resource.kind]
        if resource.kind is Kind.LISTENER:
            return all(
                self._known(kind, resource.name).in_force is not None
                for kind in (Kind.CLUSTER, Kind.ENDPOINTS)
            )
        return True

    def _may_remove(self, kind: Kind, name: str) -> bool:
        delivery, listener = self._known(kind, name), self._known(Kind.LISTENER, name)
        if delivery.sent is not None or kind in ON_DEMAND:
            return False  # endpoints go with their cluster, a certificate with its listener
        if self._configuration is not None and name in self._configuration.kept:
            return False
        if kind is Kind.LISTENER:
            return True
        if self._configuration is not None and name in self._configuration.draining:
            return False
        named = Kind.LISTENER in self._subscribed  # else Envoy has yet to name its listeners
        return named and listener.sent is None and listener.in_force is None

    def _settled(self, pool: str) -> bool:
        """Return whether Envoy answered for every resource of a pool that can be sent, or the pool is gone."""
        if not self._is_routed(pool):
            return True
        for kind in self._kinds(pool):
            state = self._state(kind, pool)
            if state is DeliveryState.REJECTED and self._known(kind, pool).in_force is None:
                return True  # what depends on it is not sent
            if state in (DeliveryState.PENDING, DeliveryState.SENT):
                return False
        return True

    def _kinds(self, name: str) -> list[Kind]:
        """Return the kinds of which the configuration has a resource of this name."""
        if self._configuration is None:
            return []
        return [kind for kind in Kind if self._configuration.find(kind, name) is not None]

    def _state(self, kind: Kind, name: str) -> DeliveryState:
        resource = self._configuration.find(kind, name) if self._configuration else None
        if resource is None:
            return DeliveryState.PENDING
        return self._known(kind, name).state(resource.version)

    def _known(self, kind: Kind, name: str) -> Delivery:
        return self._deliveries.get((kind, name)) or Delivery()
