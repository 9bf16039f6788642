"""Known busy hours: which windows are open now, and which can never be. Pure, by the clock given.

Cron is read as Debian's (cronsim), in the schedule's own zone: a time that a change of clocks leaves out comes when
they have changed, one that comes twice opens once, or both times if its minute or hour begins with a star.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock_api.types.schedules import Schedule
from penstock_operator.observed import PolicyObject

MINUTE = 60.0
ZERO = timedelta()


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that is open now."""

    policy: str
    schedule: str
    min_replicas: int
    until: float
    """Unix seconds."""


def openings(policies: Iterable[PolicyObject], now: float) -> dict[str, Opening]:
    """Return each policy's open window with the highest floor, by the policy's name."""
    found: dict[str, Opening] = {}
    for policy in policies:
        each = [_opening(policy.name, one, now) for one in policy.spec.schedules or ()]
        open_now = [one for one in each if one is not None]
        if open_now:
            found[policy.name] = max(open_now, key=lambda one: (one.min_replicas, one.until))
    return found


def highest(found: dict[str, Opening], policies: Sequence[PolicyObject]) -> Opening | None:
    """Return the highest floor that `policies`, those that select a pool, declare now."""
    mine = [found[one.name] for one in policies if one.name in found]
    return max(mine, key=lambda one: (one.min_replicas, one.until), default=None)


def faults(policy: PolicyObject) -> tuple[str, ...]:
    """Return why schedules of a policy never open: field, value, remedy."""
    found = []
    for one in policy.spec.schedules or ():
        where = f"spec.schedules[{one.name}]"
        if zone(one.time_zone) is None:
            found.append(
                f"{where}.timeZone {one.time_zone} is no IANA time zone: write one such as Europe/Berlin"
            )
        elif (fault := _fault(one.cron)) is not None:
            found.append(
                f"{where}.cron {one.cron!r} cannot be read ({fault}): write minute, hour, day of month,"
                " month and day of week, as in 30 8 * * MON-FRI"
            )
    return tuple(found)


@lru_cache(maxsize=256)
def zone(name: str | None) -> ZoneInfo | None:
    """Return a time zone by its IANA name (unset: UTC), None where there is no such."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _fault(cron: str) -> str | None:
    try:
        CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return str(error)
    return None


def _opening(policy: str, one: Schedule, now: float) -> Opening | None:
    opened = _last_opened(one.cron, one.time_zone, int(now // MINUTE))
    if opened is None:
        return None
    until = opened + one.duration_minutes * MINUTE
    return Opening(policy, one.name, one.min_replicas, until) if now < until else None


@lru_cache(maxsize=1024)
def _last_opened(cron: str, time_zone: str | None, minute: int) -> float | None:
    """Return when a window last opened, at `minute` (since 1970) or before; None where it never did.

    Cron knows no seconds, so one answer serves a whole minute.
    """
    where = zone(time_zone)
    if where is None:
        return None
    now = minute * MINUTE
    try:
        before = CronSim(cron, _latest(datetime.fromtimestamp(now + 1, where)), reverse=True)
        return next(opened for one in before if (opened := one.timestamp()) <= now)
    except (CronSimError, StopIteration):
        return None


def _latest(now: datetime) -> datetime:
    """Return from where to look back for what was before `now`: cron goes by the wall, on which an hour may come twice.

    In its second pass all of the first has been, also what the wall puts after `now`.
    """
    first = now.replace(fold=0)
    return first + ((first.utcoffset() or ZERO) - (now.utcoffset() or ZERO))
