"""The Leases of an installation: its own, and one in each namespace that it serves by name.

The installation's own Lease elects the replica that acts; a namespace's Lease elects the installation that acts there.
Only the holder of the own Lease competes for namespace Leases, and it takes them over from other replicas of its
installation at once: without the own Lease none of them acts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubernetes.aio.client.configuration import Configuration

from penstock_api import names
from penstock_operator.kube.leader_election import Leadership
from penstock_operator.kube.lease_client import LeaseClient


@dataclass(frozen=True, slots=True)
class Leases:
    """All Leases of an installation."""

    own: Leadership
    within: Mapping[str, Leadership] = field(default_factory=dict)
    """By namespace; empty in scope Cluster, where the own Lease covers every namespace."""

    @classmethod
    def of(
        cls, configuration: Configuration, own: str, holder: str, namespaces: tuple[str, ...]
    ) -> "Leases":
        """Return the Leases of the installation in namespace `own` that serves `namespaces` by name."""
        installation = Leadership(LeaseClient(configuration, own, names.LEASE_NAME), holder)
        prefix = f"{own}_"  # no namespace name contains `_`, so the prefix is unambiguous
        within = {
            namespace: Leadership(
                LeaseClient(configuration, namespace, names.NAMESPACE_LEASE_NAME),
                f"{prefix}{holder}",
                installation.valid,
                inherits_from=prefix,
            )
            for namespace in namespaces
        }
        return cls(installation, within)

    def start(self) -> None:
        """Start competing."""
        for leadership in self._all():
            leadership.start()

    def stop(self) -> None:
        """Release all Leases, the own one last: the next leader also needs those of the namespaces."""
        leases = list(self._all())[::-1]
        for leadership in leases:
            leadership.request_stop()
        for leadership in leases:
            leadership.stop()

    def valid(self, now: float | None = None) -> bool:
        """Return whether this process holds the own Lease at `now` (monotonic seconds; None: now)."""
        return self.own.valid(now)

    def valid_in(self, namespace: str | None, now: float | None = None) -> bool:
        """Return whether this process may write in a namespace; None: to cluster-scoped objects."""
        within = self.within.get(namespace) if namespace is not None else None
        return self.own.valid(now) and (within is None or within.valid(now))

    def transitions_in(self, namespace: str) -> int:
        """Return `leaseTransitions` of the Lease that governs a namespace."""
        return self.within.get(namespace, self.own).transitions

    def led(self) -> frozenset[str]:
        """Return the namespaces whose Lease this process holds."""
        return frozenset(filter(self.valid_in, self.within))

    def _all(self) -> Iterator[Leadership]:
        yield self.own
        yield from self.within.values()
