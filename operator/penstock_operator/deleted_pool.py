"""Deleted pools: what the object store passes to the budgets about pools whose pods may outlive them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeletedPool:
    """A pool that is being deleted, or that was deleted while objects with its label remain."""

    uid: str
    labels: Mapping[str, str]
    """As last read."""
    namespace_labels: Mapping[str, str]
    devices: Mapping[str, int]
    """Devices of its bound pods, by resource."""
    replicas: int
    """`spec.replicas` of the workload that outlives it; 0 without one."""
