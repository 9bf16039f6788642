"""Events on pools (core/v1): at most one per minute for each pool and reason (docs/design/design.md#writing)."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import Writer
from penstock_operator.decide.actions import EventNote
from penstock_operator.kube.client import ApiRequest, Json
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observed import PoolObject

EVENT = ResourceKind("Event", "", "v1", "events")
INTERVAL_SECONDS = 60.0
MESSAGE_LENGTH = 1024


@dataclass(slots=True)
class Events:
    """Posts Events, and limits their rate."""

    writer: Writer
    _posted: dict[tuple[str, str], float] = field(default_factory=dict)

    async def post(self, pool: PoolObject, note: EventNote, now: float) -> bool:
        """Post an Event unless one with its reason was posted within a minute; return whether it was posted.

        Raises:
            ClusterError, NotLeading: as `Writer.write`.
        """
        if not self._due(pool.uid, note.reason, now):
            return False
        path = EVENT.path(pool.namespace)
        request = ApiRequest("POST", path, event(pool, note, now))
        await self.writer.write(EVENT, "create", request, Urgency.EVENT)
        return True

    def forget(self, uid: str) -> None:
        """Drop the rate limit of a deleted pool."""
        self._posted = {key: at for key, at in self._posted.items() if key[0] != uid}

    def _due(self, uid: str, reason: str, now: float) -> bool:
        last = self._posted.get((uid, reason))
        if last is not None and now - last < INTERVAL_SECONDS:
            return False
        self._posted[uid, reason] = now
        return True


def event(pool: PoolObject, note: EventNote, now: float) -> Json:
    """Return the manifest of an Event; `now` in Unix seconds."""
    time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pool.name}.{uuid.uuid4().hex[:16]}", "namespace": pool.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "namespace": pool.namespace,
            "name": pool.name,
            "uid": pool.uid,
            "resourceVersion": pool.resource_version,
        },
        "type": note.type.value,
        "reason": note.reason,
        "message": note.message[:MESSAGE_LENGTH],
        "source": {"component": "penstock-operator"},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
