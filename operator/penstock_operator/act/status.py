"""Status: conditions and counts as soon as they change, samples only now and then.

An unchanged cluster costs no write at all; a sample that wobbles inside its dead band costs none either
(docs/design/design.md#writing). Statuses are applied server-side, so that other writers' conditions stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock_api import names
from penstock_api.types.policy import PolicyStatus
from penstock_api.types.status import PoolStatus
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import APPLY, Writer
from penstock_operator.decide.plan import PolicyPlan
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore, Unreadable
from penstock_operator.observe.cluster.crd_skew import ServedSchemas

SAMPLE_SECONDS = 60.0
JITTER_SECONDS = 15.0
WORDS_SECONDS = 10.0
"""A condition whose words alone changed may be rewritten this often."""
DEAD_BAND = 0.1
"""Share of the held value within which a sample is the same."""
FLOORS: Mapping[str, float] = {
    "signalAgeSeconds": 15.0,
    "gpuUtilizationPercent": 5.0,
    "waiting": 2.0,
    "rowsPerSecond": 1.0,
    "forecastRowsPerSecond": 1.0,
    "batchP99Milliseconds": 5.0,
    "batchTimeTargetMilliseconds": 1.0,
    "curve.interceptMilliseconds": 0.5,
    "curve.millisecondsPerRow": 0.05,
    "curve.rSquared": 0.1,
    "curve.meanRows": 1.0,
    "curve.largestRows": 1.0,
    "rowsPerSecondPerReplica": 1.0,
    "effectiveUtilizationPercent": 5.0,
    "utilizationTargetPercent": 5.0,
    "imbalance": 0.1,
    "predictedP99Milliseconds": 10.0,
    "startupP90Seconds": 5.0,
    "replicaHours": 0.5,
    "actualReplicaHours": 0.5,
}
"""Below this difference a sample is the same, whatever its share."""
DECIDED = ("algorithm", "cap", "replicas")
"""What of a decision is worth a write at once: what it did, not how it says so."""

HOURS = ("replicaHours", "actualReplicaHours")
"""What of a candidate only ever grows: a sample."""

Json = Mapping[str, Any]


def worth_writing(held: Json, wanted: Json, last_written: float | None, now: float) -> bool:
    """Return whether `wanted` should be written over `held` (statuses in JSON; times in seconds).

    `last_written` None: this operator has not written it yet.
    """
    if _facts(held) != _facts(wanted):
        return True
    age = float("inf") if last_written is None else now - last_written
    if age >= WORDS_SECONDS and _words(held) != _words(wanted):
        return True
    return age >= SAMPLE_SECONDS and samples_moved(held, wanted)


def policy_worth_writing(held: Json, wanted: Json, last_written: float | None, now: float) -> bool:
    """Return whether a policy's status should be written over the one held.

    Where only figures and words differ, as a budget's do with the load, now and then is enough.
    """
    if held == wanted:
        return False
    if last_written is None or now - last_written >= WORDS_SECONDS:
        return True
    return _policy_facts(held) != _policy_facts(wanted)


def samples_moved(held: Json, wanted: Json) -> bool:
    """Return whether a sample left its dead band, or the last decision reads differently."""
    before, after = _samples(held), _samples(wanted)
    if any(_moved(key, before.get(key), after.get(key)) for key in {*before, *after}):
        return True
    old, new = held.get("lastDecision") or {}, wanted.get("lastDecision") or {}
    return {**old, "time": ""} != {**new, "time": ""}


def _samples(status: Json) -> dict[str, object]:
    tried = status.get("candidate") or {}
    hours = {key: tried[key] for key in HOURS if key in tried}
    return {**_flat(status.get("scaling") or {}), **hours}


def _flat(samples: Json) -> dict[str, object]:
    """Return the samples by path: `curve` holds several."""
    found: dict[str, object] = {}
    for key, value in samples.items():
        nested = value.items() if isinstance(value, Mapping) else ()
        found |= {f"{key}.{name}": one for name, one in nested} if nested else {key: value}
    return found


def _facts(status: Json) -> Json:
    """What is written at once: everything but samples, words and times."""
    facts = {key: value for key, value in status.items() if key not in ("scaling", "lastDecision")}
    facts["conditions"] = [
        {key: one.get(key) for key in ("type", "status", "reason", "observedGeneration")}
        for one in status.get("conditions") or ()
    ]
    tried = status.get("candidate") or {}
    facts["candidate"] = {key: one for key, one in tried.items() if key not in HOURS}
    decision = status.get("lastDecision") or {}
    facts["decided"] = [decision.get(key) for key in DECIDED]
    facts["source"] = (status.get("scaling") or {}).get("source")
    return facts


def _policy_facts(status: Json) -> list[object]:
    conditions = [
        [one.get(key) for key in ("type", "status", "reason")]
        for one in status.get("conditions") or ()
    ]
    return [status.get("observedGeneration"), status.get("matchedPools"), conditions]


def _words(status: Json) -> list[str]:
    return [one.get("message", "") for one in status.get("conditions") or ()]


def _moved(key: str, old: object, new: object) -> bool:
    if old is None or new is None or key not in FLOORS:
        return old != new and key != "holdUntil"
    before, after = float(str(old)), float(str(new))
    return abs(after - before) > max(FLOORS[key], DEAD_BAND * abs(before))


@dataclass(slots=True)
class Statuses:
    """Writes the statuses of pools and policies; remembers when it last did."""

    writer: Writer
    store: ObjectStore
    schemas: ServedSchemas
    """What an older CRD lacks is left out: the API server would refuse the whole status."""
    _written: dict[str, float] = field(default_factory=dict)
    _told: dict[str, int] = field(default_factory=dict)

    async def write_pool(self, uid: str, wanted: PoolStatus, now: float) -> bool:
        """Write a pool's status if that is worth it; return whether it was written."""
        pool = self.store.pools.get(uid)
        if pool is None:
            return False
        held, body = _json(pool.status), self._sayable(kinds.POOL, wanted)
        if not worth_writing(held, body, self._written.get(uid), now):
            return False
        self._written[uid] = now + jitter(uid)
        await self._apply(kinds.POOL, uid, (pool.namespace, pool.name), body)
        return True

    async def write_policy(self, plan: PolicyPlan, now: float) -> bool:
        """Write a policy's status if that is worth it; return whether it was written."""
        policy = next((one for one in self.store.policies.values() if one.name == plan.name), None)
        body = self._sayable(kinds.POLICY, plan.status)
        if policy is None:
            return False
        last = self._written.get(policy.uid)
        if not policy_worth_writing(_json(policy.status), body, last, now):
            return False
        self._written[policy.uid] = now
        await self._apply(kinds.POLICY, policy.uid, (None, policy.name), body)
        return True

    async def write_unreadable(self, pool: Unreadable, status: PoolStatus) -> None:
        """Say on a pool that this operator cannot read it, once for each of its generations."""
        if self._told.get(pool.uid) != pool.generation:
            self._told[pool.uid] = pool.generation
            body = self._sayable(kinds.POOL, status)
            await self._apply(kinds.POOL, pool.uid, (pool.namespace, pool.name), body)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._written.pop(uid, None)
        self._told.pop(uid, None)

    def _sayable(self, kind: ResourceKind, status: PoolStatus | PolicyStatus) -> dict[str, Any]:
        """Return a status in JSON, less what the served CRD has no field for."""
        body = _json(status)
        for path in self.schemas.of(kind.kind).lacking:
            part, _, below = path.partition(".")
            if part == "status":
                leave_out(body, below.split("."))
        return body

    async def _apply(
        self, kind: ResourceKind, uid: str, name: tuple[str | None, str], body: Json
    ) -> None:
        metadata = {"name": name[1], "uid": uid}
        if name[0] is not None:
            metadata["namespace"] = name[0]
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "status": body,
        }
        path = f"{kind.path(*name)}/status"
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        request = ApiRequest("PATCH", path, manifest, query, APPLY)
        answer = await self.writer.write(kind, "status", request, Urgency.CONDITION)
        self.store.upsert(kind, answer)


def leave_out(value: object, path: Sequence[str]) -> None:
    """Drop a field from JSON, in every item where the path passes a list."""
    if isinstance(value, list):
        for one in value:
            leave_out(one, path)
    elif isinstance(value, dict):
        name, *below = path
        if below:
            leave_out(value.get(name), below)
        else:
            value.pop(name, None)


def jitter(uid: str) -> float:
    """Return 0 to 15 s, always the same for a pool, so that many pools' samples do not come at once."""
    return (sum(uid.encode()) % 97) / 97 * JITTER_SECONDS


def _json(status: PoolStatus | PolicyStatus) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
