"""`PodIds`: the user and group IDs of a pool's pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import SET_LIST, rule, rules

MAX_ID = 2**31 - 1
GroupId = Annotated[int, Field(ge=0, le=MAX_ID)]
_EXPLICIT = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")
_GIVEN = ", ".join(f"has(self.{name}) ? '{name}' : ''" for name in _EXPLICIT)


class IdSource(StrEnum):
    """Origin of the IDs that a pool leaves unset."""

    FIXED = "Fixed"
    """User, group and fsGroup 65532, the user of the shipped image."""
    PLATFORM = "Platform"
    """None is set: the platform assigns them, as OpenShift's restricted-v2 requires, or the image's user applies."""


class PodSecurityContext(ApiModel):
    """IDs of the pods, as core/v1. The pods always run under restricted pod security, and never as root."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.ids) || self.ids != 'Platform'"
                f" || !({' || '.join(f'has(self.{name})' for name in _EXPLICIT)})",
                "securityContext.ids %s leaves the IDs to the platform, but the following are set: %s;"
                " remove them, or set ids Fixed",
                "self.ids",
                f"[{_GIVEN}].filter(n, n != '')",
            )
        )
    )
    ids: IdSource | None = None
    """Origin of the IDs that are unset here; defaults to Platform where the operator runs on OpenShift, else to Fixed."""
    run_as_user: Annotated[int, Field(ge=1, le=MAX_ID)] | None = None
    """User ID of the container; root is not supported."""
    run_as_group: GroupId | None = None
    """Primary group ID of the container."""
    fs_group: GroupId | None = None
    """Group ID that volumes are made accessible to."""
    supplemental_groups: (
        Annotated[tuple[GroupId, ...], Field(max_length=16, json_schema_extra=SET_LIST)] | None
    ) = None
    """Further group IDs of the container, such as those of an NFS export."""
