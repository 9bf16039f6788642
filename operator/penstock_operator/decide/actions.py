"""The actions of a plan: writes of child objects, pushes of limits, and Events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock_api.pod_contract import LimitsUpdate


class Write(StrEnum):
    """The kind of request to the API server."""

    CREATE = "Create"
    """Plain create of an absent child; a conflict means that another writer created it first, and requeues the pool."""
    APPLY = "Apply"
    """Server-side apply, with the resourceVersion it was computed from."""
    REPLACE = "Replace"
    """Replacement of spec, labels and annotations, with a precondition on UID and resourceVersion."""
    DELETE = "Delete"
    """With a precondition on the UID."""


@dataclass(frozen=True, slots=True)
class ChildWrite:
    """One write of one child of a pool."""

    write: Write
    kind: str
    manifest: Mapping[str, Any]
    """The whole object, also of a DELETE that comes before a CREATE; of another one `metadata` with namespace, name and uid."""
    live: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The child that the write changes, with the generation of its spec in place of the spec of a pool; None without one."""


@dataclass(frozen=True, slots=True)
class LimitsPush:
    """A push of the published limits to one pod."""

    pod_uid: str
    ip: str
    update: LimitsUpdate
    tls_name: str | None = None
    """Server name of the pod's certificate, as in `PodObject.tls_name`; None without TLS."""


class EventType(StrEnum):
    """Event type of core/v1."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event on the pool; in `act/` notes of one reason in quick succession share an Event."""

    type: EventType
    reason: str
    message: str
