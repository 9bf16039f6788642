"""The parts of Services and Pods that routing reads, decoded from the API server's JSON."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType, field


class Metadata(Struct, frozen=True):
    """Metadata of an object."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    version: str = field(name="resourceVersion", default="")
    deletion: str | UnsetType = field(name="deletionTimestamp", default=UNSET)


class Service(Struct, frozen=True):
    """A Service; which pods it selects does not matter here."""

    metadata: Metadata


class PodCondition(Struct, frozen=True):
    """A condition of a pod."""

    type: str
    status: str


class PodStatus(Struct, frozen=True):
    """Status of a pod."""

    ip: str = field(name="podIP", default="")
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class WatchedPod(Struct, frozen=True):
    """A pod."""

    metadata: Metadata
    status: PodStatus = PodStatus()

    @property
    def serves(self) -> bool:
        """Whether requests may go to the pod: Ready, with an address, and not being deleted."""
        ready = any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions
        )
        running = self.status.phase not in ENDED and bool(self.status.ip)
        return ready and running and self.metadata.deletion is UNSET


ENDED: Final = frozenset({"Succeeded", "Failed"})
