"""The pool of a variant: the pool that owns it (`VariantOwner`), and what its law reports to that one (`VariantFigures`)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock_api import names


class VariantOwner(NamedTuple):
    """A pool with variants."""

    uid: str
    name: str


def variant_owner(meta: Mapping[str, Any]) -> VariantOwner | None:
    """Return the InferencePool that controls the object with this `metadata`, or None."""
    for owner in meta.get("ownerReferences") or ():
        group = str(owner.get("apiVersion", "")).partition("/")[0]
        if owner.get("controller") and (group, owner["kind"]) == (names.GROUP, names.POOL_KIND):
            return VariantOwner(str(owner["uid"]), str(owner["name"]))
    return None


def batch_replicas(annotations: Mapping[str, str]) -> int:
    """Return the replicas of a variant's pool that only batch work needs; 0 if the annotation is no number, edited by hand."""
    text = annotations.get(names.ANNOTATION_BATCH_REPLICAS, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


class BatchShape(NamedTuple):
    """The batches of a variant's pods, by which the share of late requests is predicted."""

    cap: int
    """The planned cap, in rows."""
    seconds: float
    """t(cap)."""
    tail_ratio: float
    """Time of a batch in the tail over t(cap), at least 1."""
    intercept: float
    """Time of a batch without its rows over t(cap)."""


class VariantLoad(NamedTuple):
    """What the pods of one variant received and served; rates are rows a second."""

    time: float
    """Unix time of the measurement."""
    recent: float
    """Received over the last 15 s."""
    newest: float
    """Received between the last two scrapes."""
    overlapping: bool = False
    """Whether successive values of `newest` overlap."""
    excess: float = 0.0
    """Waiting rows beyond the next batches of the Ready pods."""
    serving: float = 0.0
    """Capacity of the Ready pods in full batches."""
    settled: float = 0.0
    """Requests that have ended since the operator began to observe the pods."""
    on_time: float = 0.0
    """Requests of those within the objective."""
    dispersion: float = 1.0
    """Variance over mean of a pod's arrivals between scrapes, in rows."""
    unevenness: float = 0.0
    """Squared coefficient of variation of the pods' rates, per pod."""
    imbalance: float = 1.0
    """The busiest pod's rate over the mean."""
    guarded: float = 0.0
    """Capacity at the objective that the targets of `spec.scaling` require."""


class VariantFigures(NamedTuple):
    """What the last decision about the pool of a variant knew; None is unknown."""

    capacity: float | None = None
    """Rows a second that one replica serves within the objective; 0: it cannot meet it."""
    load: VariantLoad | None = None
    per_hour: float | None = None
    """Price of an hour of one replica, by its pods that are bound to nodes."""
    startup_seconds: float | None = None
    shape: BatchShape | None = None
    """None where latency is not predicted: without an objective for requests, or in generation."""
    startable: int | None = None
    """Pods that are Ready or start, if no more can start for now; None if more can."""
    template_per_hour: float | None = None
    """Price that a replica has on every node that its template selects."""


NO_FIGURES = VariantFigures()
