"""Events on pools (core/v1): notes of one reason in quick succession share one Event that counts and names them all.

The first note is written at once, later ones of its burst at most every 10 s, so that no step is skipped and the rate
stays bounded (docs/design/design.md#writing).
"""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock_api import names
from penstock_operator.act.event_bursts import Burst, PoolBursts
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, Writer
from penstock_operator.decide.actions import EventNote
from penstock_operator.kube.client import ApiRequest, Json
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observed import PoolObject
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)

EVENT = ResourceKind("Event", "", "v1", "events")


@dataclass(slots=True)
class Events:
    """Writes Events, and keeps those that are not written yet."""

    writer: Writer
    _pools: dict[str, PoolBursts] = field(default_factory=dict)
    """By UID of the pool."""

    def add(self, pool: PoolObject, note: EventNote, now: float) -> None:
        """Take a note, which `write_due` writes."""
        dropped = self._pools.setdefault(pool.uid, PoolBursts()).add(note, now)
        if dropped is not None:
            _log_dropped(pool.namespace, pool.name, dropped)

    async def write_due(self, pool: PoolObject, now: float) -> None:
        """Create or update the pool's Events that are due; what fails is retried by a later pass.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        bursts = self._pools.get(pool.uid)
        if bursts is None:
            return
        for burst in bursts.due(now):
            bursts.record_attempt(burst.note.reason, now)
            await self._write(pool, burst)
        if bursts.prune(now):
            del self._pools[pool.uid]

    def forget(self, uid: str) -> None:
        """Drop the notes of a deleted pool; those that were never written are logged."""
        bursts = self._pools.pop(uid, None)
        for burst in bursts.unwritten() if bursts else ():
            _log_dropped("", uid, burst)

    async def _write(self, pool: PoolObject, burst: Burst) -> None:
        """Apply the Event, which creates it if it is new, expired or deleted."""
        count, manifest = burst.count, event(pool, burst)
        path = EVENT.path(pool.namespace, manifest["metadata"]["name"])
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        request = ApiRequest("PATCH", path, manifest, query, APPLY)
        await self.writer.write(EVENT, "apply", request, Urgency.EVENT)
        burst.written = count


def event(pool: PoolObject, burst: Burst) -> Json:
    """Return the manifest of an Event."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pool.name}.{burst.name_suffix}", "namespace": pool.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "namespace": pool.namespace,
            "name": pool.name,
            "uid": pool.uid,
            "resourceVersion": pool.resource_version,
        },
        "type": burst.note.type.value,
        "reason": burst.note.reason,
        "message": burst.message,
        "source": {"component": "penstock-operator"},
        "firstTimestamp": _rfc3339(burst.first),
        "lastTimestamp": _rfc3339(burst.last),
        "count": burst.count,
    }


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log_dropped(namespace: str, pool: str, burst: Burst) -> None:
    log.warning(
        "an Event was not written: %s: %s",
        burst.note.reason,
        burst.message,
        extra=fields(namespace=namespace, pool=pool, reason=burst.note.reason, count=burst.count),
    )
