"""Devices of one replica: `Resource`, their name, `Accelerator`, and `Parallelism`, their use by one replica."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.pod_contract import MAX_RANKS

Resource = Annotated[
    str,
    Field(
        min_length=3,
        max_length=128,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
"""Extended resource, as device plugins name them."""


class Accelerator(ApiModel):
    """Devices of each pod of a replica. Count 0 means CPU."""

    resource_name: Resource | None = None
    """Resource of the device plugin; defaults to nvidia.com/gpu."""
    count: Annotated[int, Field(ge=0, le=16)] | None = None
    """Devices of each pod: 1, the default, 0 for the CPU, or parallelism.tensor times pipeline times data, divided by nodes; a pool stored with more uses one of them."""


class Parallelism(ApiModel):
    """Use of several devices by one replica."""

    tensor: Annotated[int, Field(ge=1, le=MAX_RANKS)] | None = None
    """Ranks that each layer is split over, each a process with one device; must divide the model's attention heads, key-value heads, feed-forward width and vocabulary. Defaults to 1."""
    pipeline: Annotated[int, Field(ge=1, le=MAX_RANKS)] | None = None
    """Stages that the model's layers are divided into, each of `tensor` ranks; at most the number of layers. Defaults to 1."""
    nodes: Annotated[int, Field(ge=1, le=MAX_RANKS)] | None = None
    """Pods of one replica, each with an equal part of the ranks, on one node or several; more than 1 needs LeaderWorkerSets in the cluster. Cannot change. Defaults to 1."""
    data: Annotated[int, Field(ge=1, le=MAX_RANKS)] | None = None
    """Engines of one replica behind one queue, each a process with one device and the whole model, for other tasks than TextGeneration. Defaults to 1."""

    @property
    def ranks(self) -> int:
        """Return the number of processes that one model is divided over."""
        return (self.tensor or 1) * (self.pipeline or 1)

    @property
    def devices(self) -> int:
        """Return the number of devices that one pod computes on."""
        return self.ranks * (self.data or 1) // (self.nodes or 1)
