"""Knowledge about pods by revision: per pod while it lives, merged by revision afterwards. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from penstock_operator.decide.scaling.law import LawPod


class RevisionSample(Protocol):
    """Knowledge from one pod."""

    @property
    def revision(self) -> str | None:
        """Revision of the pod's template: pods of one revision perform alike."""


T = TypeVar("T", bound=RevisionSample)


def main_revision(of_pods: Iterable[str | None]) -> str | None:
    """Return the revision of most pods; of a tie the greater name, for a stable choice. None without pods."""
    counts = Counter(of_pods)
    return max(counts, key=lambda revision: (counts[revision], revision or ""), default=None)


@dataclass(frozen=True)
class RevisionKnowledge(Generic[T]):
    """Knowledge from all pods. It has no slots, because Python 3.11 cannot call `RevisionKnowledge[T]` with them."""

    pods: Mapping[str, T] = field(default_factory=dict)
    gone: Mapping[str | None, T] = field(default_factory=dict)
    """Merged knowledge from deleted pods, by revision, while pods of that revision live."""

    def of_revision(self, revision: str | None) -> tuple[T, ...]:
        """Return the knowledge from pods of one revision."""
        samples = [sample for sample in self.pods.values() if sample.revision == revision]
        past = self.gone.get(revision)
        return tuple(samples if past is None else [*samples, past])

    def of_main_revision(self) -> tuple[str | None, tuple[T, ...]]:
        """Return the revision of most pods and the knowledge of it; (None, ()) without pods."""
        revision = main_revision(sample.revision for sample in self.pods.values())
        return revision, self.of_revision(revision) if self.pods else ()

    def updated(
        self,
        pods: Sequence[LawPod],
        learn: Callable[[T | None, LawPod], T | None],
        merged: Callable[[T, T], T],
    ) -> "RevisionKnowledge[T]":
        """Return the knowledge after each live pod's new samples; deleted pods are merged by revision."""
        live = {pod.uid: pod for pod in pods}
        known = {
            uid: sample
            for uid, pod in live.items()
            if (sample := learn(self.pods.get(uid), pod)) is not None
        }
        revisions = {pod.revision for pod in pods}
        gone = {key: past for key, past in self.gone.items() if key in revisions}
        for uid, past in self.pods.items():
            if uid not in live and past.revision in revisions:
                before = gone.get(past.revision)
                gone[past.revision] = past if before is None else merged(before, past)
        return RevisionKnowledge(known, gone)
