"""The installation's own Lease, and one of each namespace it serves by name.

The own one tells which of the installation's processes acts; a namespace's tells which installation acts there, so
that two cannot share one. A namespace's is only competed for by the process that holds the own one, and which of the
installation's processes held it before does not matter to that one: without the own Lease none of them acts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubernetes.aio.client.configuration import Configuration

from penstock_api import names
from penstock_operator.kube.leader_election import Leadership
from penstock_operator.kube.lease_client import LeaseClient


@dataclass(frozen=True, slots=True)
class Leases:
    """Every Lease of an installation."""

    own: Leadership
    within: Mapping[str, Leadership] = field(default_factory=dict)
    """By namespace; none in scope Cluster, where the own one counts everywhere."""

    @classmethod
    def of(
        cls, configuration: Configuration, own: str, holder: str, namespaces: tuple[str, ...]
    ) -> "Leases":
        """Return the Leases of the installation in namespace `own` that serves `namespaces` by name."""
        first = Leadership(LeaseClient(configuration, own, names.LEASE_NAME), holder)
        ours = f"{own}_"  # a namespace's name has no such letter, so no other's begins alike
        within = {
            one: Leadership(
                LeaseClient(configuration, one, names.NAMESPACE_LEASE_NAME),
                f"{ours}{holder}",
                first.valid,
                heir_of=ours,
            )
            for one in namespaces
        }
        return cls(first, within)

    def start(self) -> None:
        """Begin to compete."""
        for one in self._all():
            one.start()

    def stop(self) -> None:
        """Give all of them back: the namespaces' before the own, for the next leader needs those too."""
        held = list(self._all())[::-1]
        for one in held:
            one.tell_to_stop()
        for one in held:
            one.stop()

    def valid(self, now: float | None = None) -> bool:
        """Return whether this process acts for the installation at `now` (monotonic; None: this moment)."""
        return self.own.valid(now)

    def valid_in(self, namespace: str | None, now: float | None = None) -> bool:
        """Return whether it may write in a namespace; None: to what is in none."""
        other = self.within.get(namespace) if namespace is not None else None
        return self.own.valid(now) and (other is None or other.valid(now))

    def transitions_in(self, namespace: str) -> int:
        """Return `leaseTransitions` of the Lease that counts in a namespace, as last held by us."""
        return self.within.get(namespace, self.own).transitions

    def led(self) -> frozenset[str]:
        """Return the namespaces whose own Lease is held."""
        return frozenset(one for one in self.within if self.valid_in(one))

    def _all(self) -> Iterator[Leadership]:
        yield self.own
        yield from self.within.values()
