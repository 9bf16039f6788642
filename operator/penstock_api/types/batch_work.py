"""`BatchWorkSpec`: what batch work may add to a pool."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import MAX_REPLICAS


class BatchWorkSpec(ApiModel):
    """Replicas for the lines of batches, which can wait."""

    max_replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Replicas that batch work may add to those that other demand and minReplicas need, within scaling.maxReplicas; 0, the
    default: batch work has what other demand leaves."""
    deadline_seconds: Annotated[int, Field(ge=60, le=30 * 86400)] | None = None
    """Seconds from its submission in which a batch is planned to end; unset, or beyond the batch's own window: the window."""
