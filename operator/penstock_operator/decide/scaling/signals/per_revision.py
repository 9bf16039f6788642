"""What pods teach about their like, whatever it is: by pod while they live, by revision once they are gone. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from penstock_operator.decide.scaling.law import LawPod


class RevisionSample(Protocol):
    """What one pod taught."""

    @property
    def revision(self) -> str | None:
        """Of its template: pods of one revision serve alike."""


T = TypeVar("T", bound=RevisionSample)


@dataclass(frozen=True)
class RevisionKnowledge(Generic[T]):
    """What all pods taught. Without slots: Python 3.11 cannot call `RevisionKnowledge[T]` with them."""

    pods: Mapping[str, T] = field(default_factory=dict)
    gone: Mapping[str | None, T] = field(default_factory=dict)
    """Of pods that are gone, by revision; only while pods of that revision live."""

    def of_revision(self, revision: str | None) -> tuple[T, ...]:
        """Return all that is known of pods of one revision."""
        found = [one for one in self.pods.values() if one.revision == revision]
        past = self.gone.get(revision)
        return tuple(found if past is None else [*found, past])

    def of_main_revision(self) -> tuple[str | None, tuple[T, ...]]:
        """Return the revision that most pods run, and all that is known of it; nothing where no pod is known."""
        counts = Counter(one.revision for one in self.pods.values())
        revision = max(counts, key=lambda one: (counts[one], one or ""), default=None)
        return revision, self.of_revision(revision) if counts else ()

    def updated(
        self,
        pods: Sequence[LawPod],
        learn: Callable[[T | None, LawPod], T | None],
        merged: Callable[[T, T], T],
    ) -> "RevisionKnowledge[T]":
        """Return it with what each live pod teaches now; what pods that are gone knew is merged by revision."""
        live = {pod.uid: pod for pod in pods}
        known = {
            uid: found
            for uid, pod in live.items()
            if (found := learn(self.pods.get(uid), pod)) is not None
        }
        revisions = {pod.revision for pod in pods}
        gone = {key: one for key, one in self.gone.items() if key in revisions}
        for uid, one in self.pods.items():
            if uid not in live and one.revision in revisions:
                before = gone.get(one.revision)
                gone[one.revision] = one if before is None else merged(before, one)
        return RevisionKnowledge(known, gone)
