"""`Schedule`: a minimum replica count in windows that cron expressions open."""

from typing import Annotated

from pydantic import Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import Label
from penstock_api.types.live import Replicas

_PART = r"[0-9A-Za-z*][0-9A-Za-z*,/#-]*"
CRON = rf"^{_PART}( +{_PART}){{4}}$"
TIME_ZONE = r"^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$"


class Schedule(ApiModel):
    """A recurring window of known load, and its minimum replica count."""

    name: Label
    """Name of the schedule."""
    cron: Annotated[str, Field(min_length=9, max_length=128, pattern=CRON)]
    """Start of the window as a cron expression: minute, hour, day of month, month, day of week; `30 8 * * MON-FRI`."""
    duration_minutes: Annotated[int, Field(ge=1, le=10_080)]
    """Duration of the window in minutes."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] | None = None
    """Time zone of `cron` by its IANA name, such as Europe/Berlin; defaults to UTC."""
    min_replicas: Replicas
    """Minimum replica count in mode Auto while the window is open, subject to maxReplicas and bounds."""
