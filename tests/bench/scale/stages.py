"""How far many pools have come, which part of the plane is behind, and when nothing comes any more. Pure."""

from dataclasses import dataclass

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Stages:
    """How many of each there are, in the order in which one follows from the other."""

    pools: int
    decided: int
    """By the operator process that runs now."""
    deployments: int
    pods: int
    up: int
    """Bound and told Ready by the pretended kubelet."""
    ready: int
    """Seen Ready by the operator."""
    acknowledged: int

    def __str__(self) -> str:
        """Return the counts in words."""
        return (
            f"{self.pools} pools, {self.decided} decided on, {self.deployments} Deployments, {self.pods} pods,"
            f" {self.up} up, {self.ready} seen Ready, {self.acknowledged} obeying"
        )

    def all(self, size: int) -> bool:
        """Tell whether so many pools are whole."""
        return min(self.pools, self.decided, self.ready, self.acknowledged) >= size

    def behind(self, size: int) -> str:
        """Return whose turn it is: of the steps, the one that lacks most of what the step before has given it."""
        steps: dict[str, tuple[int, int]] = {
            "the bench, to make pools": (size, self.pools),
            "the operator, to decide and to write children": (self.pools, min(self.decided, self.deployments)),
            "the Deployment controller": (self.deployments, self.pods),
            "the pretended kubelet": (self.pods, self.up),
            "the operator, to see pods Ready": (self.up, self.ready),
            "the pods' acknowledgements": (self.ready, self.acknowledged),
        }  # fmt: skip
        return max(steps, key=lambda one: steps[one][0] - steps[one][1])


@dataclass(slots=True)
class Patience:
    """Ends a wait when nothing has moved for a while, however long it has been under way."""

    seconds: float
    _held: object = None
    _since: float = 0.0

    def spent(self, seen: object, now: float) -> bool:
        """Tell whether what is seen has stayed the same for too long; `now` in seconds."""
        if seen != self._held:
            self._held, self._since = seen, now
        return now - self._since > self.seconds
