"""Schedules of policies: the windows that are open at a given time, and schedules that never open. Pure.

Cron expressions follow Debian's cron (cronsim) in the schedule's time zone. A time that a clock change skips opens
right after the change; a time that occurs twice opens once, or both times if its minute or hour begins with a star.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock_api.types.scaling import Schedule
from penstock_operator.observed import PolicyObject

MINUTE = 60.0
ZERO = timedelta()


@dataclass(frozen=True, slots=True)
class Opening:
    """An open window of a schedule."""

    policy: str
    schedule: str
    min_replicas: int
    until: float
    """End of the window, in Unix seconds."""


def openings(policies: Iterable[PolicyObject], now: float) -> dict[str, Opening]:
    """Return each policy's open window with the highest floor, by the policy's name."""
    highest_of: dict[str, Opening] = {}
    for policy in policies:
        windows = [_opening(policy.name, item, now) for item in policy.spec.schedules or ()]
        open_now = [opening for opening in windows if opening is not None]
        if open_now:
            highest_of[policy.name] = max(open_now, key=_floor)
    return highest_of


def _floor(opening: Opening) -> tuple[int, float]:
    return opening.min_replicas, opening.until


def highest(open_now: dict[str, Opening], policies: Sequence[PolicyObject]) -> Opening | None:
    """Return the open window with the highest floor of `policies`, those that select a pool."""
    own = [open_now[policy.name] for policy in policies if policy.name in open_now]
    return max(own, key=_floor, default=None)


def faults(policy: PolicyObject) -> tuple[str, ...]:
    """Return why schedules of a policy never open: field, value, remedy."""
    sentences = []
    for schedule in policy.spec.schedules or ():
        where = f"spec.schedules[{schedule.name}]"
        if zone(schedule.time_zone) is None:
            sentences.append(
                f"{where}.timeZone {schedule.time_zone} is not an IANA time zone: use a name such as Europe/Berlin"
            )
        elif (fault := _fault(schedule.cron)) is not None:
            sentences.append(
                f"{where}.cron {schedule.cron!r} is invalid ({fault}): give minute, hour, day of month,"
                " month and day of week, e.g. 30 8 * * MON-FRI"
            )
    return tuple(sentences)


@lru_cache(maxsize=256)
def zone(name: str | None) -> ZoneInfo | None:
    """Return a time zone by its IANA name (unset: UTC); None for an unknown name."""
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


def _opening(policy: str, schedule: Schedule, now: float) -> Opening | None:
    opened = _last_opened(schedule.cron, schedule.time_zone, int(now // MINUTE))
    if opened is None:
        return None
    until = opened + schedule.duration_minutes * MINUTE
    if now >= until:
        return None
    return Opening(policy, schedule.name, schedule.min_replicas, until)


@lru_cache(maxsize=1024)
def _last_opened(cron: str, time_zone: str | None, minute: int) -> float | None:
    """Return when a window last opened, at `minute` (since 1970) or before; None if it never did.

    Cron has no seconds, so a result is valid for a whole minute.
    """
    where = zone(time_zone)
    if where is None:
        return None
    now = minute * MINUTE
    try:
        before = CronSim(cron, _latest(datetime.fromtimestamp(now + 1, where)), reverse=True)
        return next(opened for time in before if (opened := time.timestamp()) <= now)
    except (CronSimError, StopIteration):
        return None


def _latest(now: datetime) -> datetime:
    """Return the local time from which to search backwards: cron uses local time, in which an hour may occur twice.

    In its second occurrence all of the first is past, local times after `now` included.
    """
    first = now.replace(fold=0)
    return first + ((first.utcoffset() or ZERO) - (now.utcoffset() or ZERO))
