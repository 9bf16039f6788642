"""The parts of Services, Pods and Secrets that routing reads."""

import dataclasses
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

from penstock_api import names

HTTPS: Final = "https"


class Metadata(Struct, frozen=True):
    """Metadata of an object."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    version: str = field(name="resourceVersion", default="")
    deletion: str | UnsetType = field(name="deletionTimestamp", default=UNSET)


class ServicePort(Struct, frozen=True):
    """A port of a Service."""

    protocol: str = field(name="appProtocol", default="")


class WatchedServiceSpec(Struct, frozen=True):
    """Specification of a Service; which pods it selects does not matter here."""

    ports: tuple[ServicePort, ...] = ()


class WatchedService(Struct, frozen=True):
    """A Service."""

    metadata: Metadata
    spec: WatchedServiceSpec = WatchedServiceSpec()

    @property
    def secure(self) -> bool:
        """Whether its clients use TLS."""
        return any(port.protocol == HTTPS for port in self.spec.ports)


class PodCondition(Struct, frozen=True):
    """A condition of a pod."""

    type: str
    status: str


class ContainerState(Struct, frozen=True):
    """State of a container."""

    running: dict[str, str] | UnsetType = UNSET


class ContainerStatus(Struct, frozen=True):
    """Status of a container."""

    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True):
    """Status of a pod."""

    ip: str = field(name="podIP", default="")
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    containers: tuple[ContainerStatus, ...] = field(name="containerStatuses", default=())


class WatchedPod(Struct, frozen=True):
    """A pod."""

    metadata: Metadata
    status: PodStatus = PodStatus()

    @property
    def secure(self) -> bool:
        """Whether the pod serves TLS, as its template says."""
        return self.metadata.annotations.get(names.ANNOTATION_SCHEME) == HTTPS

    @property
    def serves(self) -> bool:
        """Whether requests may go to the pod: Ready, with an address, and not being deleted."""
        return self._is("Ready") and bool(self.status.ip) and not self.leaves

    @property
    def leaves(self) -> bool:
        """Whether it is being deleted, or has ended."""
        return self.metadata.deletion is not UNSET or self.status.phase in ENDED

    @property
    def scheduled(self) -> bool:
        """Whether it has a node."""
        return self._is("PodScheduled")

    @property
    def runs(self) -> bool:
        """Whether one of its containers runs."""
        return any(container.state.running is not UNSET for container in self.status.containers)

    def _is(self, condition: str) -> bool:
        return any(
            each.type == condition and each.status == "True" for each in self.status.conditions
        )


ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class PoolCertificate:
    """What the gateway serves to clients of a pool, and what it verifies its pods with; in PEM."""

    chain: str = dataclasses.field(repr=False)
    key: str = dataclasses.field(repr=False)
    authorities: str = dataclasses.field(default="", repr=False)
    """Every CA that the Secret has had in `ca.crt` since this process started; empty: pods are not verified."""
