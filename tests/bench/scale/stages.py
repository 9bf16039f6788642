"""Progress of many pools: counts by stage, the slowest stage, and the end of progress."""

from dataclasses import dataclass

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Stages:
    """Counts of the stages that a pool passes, in order."""

    pools: int
    decided: int
    """Pools with a decision of the present operator process."""
    deployments: int
    pods: int
    up: int
    """Pods that the fake kubelet bound and marked Ready."""
    ready: int
    """Pods that the operator observed as Ready."""
    acknowledged: int

    def __str__(self) -> str:
        """Return the counts as text."""
        return (
            f"{self.pools} pools, {self.decided} decided on, {self.deployments} Deployments, {self.pods} pods,"
            f" {self.up} up, {self.ready} observed Ready, {self.acknowledged} acknowledged"
        )

    def all(self, size: int) -> bool:
        """Return whether `size` pools have passed all stages."""
        return min(self.pools, self.decided, self.ready, self.acknowledged) >= size

    def behind(self, size: int) -> str:
        """Return the slowest stage: the one with the largest backlog from the stage before."""
        steps: dict[str, tuple[int, int]] = {
            "the bench, to make pools": (size, self.pools),
            "the operator, to decide and to write children": (self.pools, min(self.decided, self.deployments)),
            "the Deployment controller": (self.deployments, self.pods),
            "the fake kubelet": (self.pods, self.up),
            "the operator, to see pods Ready": (self.up, self.ready),
            "the pods' acknowledgements": (self.ready, self.acknowledged),
        }  # fmt: skip
        return max(steps, key=lambda step: steps[step][0] - steps[step][1])


@dataclass(slots=True)
class Patience:
    """Ends a wait when there was no progress for a while."""

    seconds: float
    _last_seen: object = None
    _since: float = 0.0

    def spent(self, observed: object, now: float) -> bool:
        """Return whether `observed` has not changed for too long; `now` is in seconds."""
        if observed != self._last_seen:
            self._last_seen, self._since = observed, now
        return now - self._since > self.seconds
