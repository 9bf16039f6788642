"""Known busy hours: a floor of replicas in windows that cron expressions open."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import Label
from penstock_api.types.live import Replicas

_PART = r"[0-9A-Za-z*][0-9A-Za-z*,/#-]*"
CRON = rf"^{_PART}( +{_PART}){{4}}$"
TIME_ZONE = r"^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$"


class Schedule(ApiModel):
    """A window of known load, and the replicas that are to be there from its first second to its last."""

    name: Label
    """What people call it."""
    cron: Annotated[str, Field(min_length=9, max_length=128, pattern=CRON)]
    """When it opens, as cron writes it: minute, hour, day of month, month, day of week; `30 8 * * MON-FRI`."""
    duration_minutes: Annotated[int, Field(ge=1, le=10_080)]
    """How long it stays open, in minutes."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] | None = None
    """The zone of `cron`, by its IANA name, such as Europe/Berlin; unset, UTC."""
    min_replicas: Replicas
    """While it is open, Auto never goes below, maxReplicas and bounds permitting."""
