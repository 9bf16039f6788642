"""Actions: writes of children, pushes of limits, Events. A plan consists of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock_api.limits import LimitsUpdate


class Write(StrEnum):
    """How a child is written."""

    CREATE = "Create"
    """Plain create: it was absent. A conflict means somebody else was faster: look again."""
    APPLY = "Apply"
    """Server-side apply, with the resourceVersion it was computed from."""
    DELETE = "Delete"
    """With a precondition on the UID."""


@dataclass(frozen=True, slots=True)
class ChildWrite:
    """One write of one child of a pool."""

    write: Write
    kind: str
    manifest: Mapping[str, Any]
    """For DELETE only `metadata` with namespace, name and uid."""


@dataclass(frozen=True, slots=True)
class LimitsPush:
    """Bring one pod to the wanted limits."""

    pod_uid: str
    ip: str
    update: LimitsUpdate
    tls_name: str | None = None
    """As `PodObject.tls_name`."""


class EventType(StrEnum):
    """As core/v1."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event on the pool: for replica, mode and bound changes, one per pool and reason a minute."""

    type: EventType
    reason: str
    message: str
