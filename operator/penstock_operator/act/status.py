"""Writes of statuses: conditions and counts as soon as they change, samples at most once a minute.

An unchanged cluster causes no write, and neither does a sample that stays within its dead band
(docs/design/design.md#writing). Statuses are applied server-side, so that other writers' conditions stay.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
MESSAGE_SECONDS = 10.0
"""Minimum time between writes in which only the message of a condition changes."""
DEAD_BAND = 0.1
"""Relative change below which a sample counts as unchanged."""
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
    "batchWork.linesLeft": 100.0,
    "batchWork.linesPerSecond": 1.0,
    "batchWork.replicas": 0.1,
    "rowsPerSecondPerReplica": 1.0,
    "effectiveUtilizationPercent": 5.0,
    "utilizationTargetPercent": 5.0,
    "imbalance": 0.1,
    "predictedP99Milliseconds": 10.0,
    "onTimePercent": 0.1,
    "startupP90Seconds": 5.0,
    "replicaHours": 0.5,
    "actualReplicaHours": 0.5,
    "perThousandRequests": 0.0,
    "perMillionTokens": 0.0,
    "batchWorkPercent": 1.0,
    "batchWorkPerHour": 0.0,
}
"""Absolute change below which a sample counts as unchanged."""
REMAINDERS = frozenset({"onTimePercent"})
"""Percentages near 100, of which the remainder is compared: 99.0 is twice as late as 99.5."""
DECIDED = ("algorithm", "cap", "replicas")
"""Fields of a decision whose change is written immediately."""

HOURS = ("replicaHours", "actualReplicaHours")
"""Fields of a candidate that count as samples, because they only grow."""
UNIT_COSTS = (
    "perThousandRequests", "perMillionTokens", "batchWorkPercent", "batchWorkPerHour",
)  # fmt: skip
"""Fields of the cost that count as samples, because they follow the traffic."""
CAPACITY = "rowsPerSecondPerReplica"
"""Field of a variant that counts as a sample, because every measurement changes it."""

Json = Mapping[str, Any]


def worth_writing(current: Json, desired: Json, last_written: float | None, now: float) -> bool:
    """Return whether the desired status should replace the current one (statuses in JSON; times in seconds).

    `last_written` None: this process has not written it yet.
    """
    if _facts(current) != _facts(desired):
        return True
    age = float("inf") if last_written is None else now - last_written
    if age < -JITTER_SECONDS:  # the clock stepped back
        age = float("inf")
    if age >= MESSAGE_SECONDS and _messages(current) != _messages(desired):
        return True
    return age >= SAMPLE_SECONDS and samples_changed(current, desired)


def policy_worth_writing(
    current: Json, desired: Json, last_written: float | None, now: float
) -> bool:
    """Return whether a policy's desired status should replace the current one.

    Changes of only figures and messages, such as the use of a budget under load, are written less often.
    """
    if current == desired:
        return False
    if last_written is None or not 0 <= now - last_written < MESSAGE_SECONDS:
        return True
    return _policy_facts(current) != _policy_facts(desired)


def samples_changed(current: Json, desired: Json) -> bool:
    """Return whether a sample left its dead band, or the text of the last decision changed."""
    before, after = _samples(current), _samples(desired)
    if any(_changed(key, before.get(key), after.get(key)) for key in {*before, *after}):
        return True
    old, new = current.get("lastDecision") or {}, desired.get("lastDecision") or {}
    return {**old, "time": ""} != {**new, "time": ""}


def _samples(status: Json) -> dict[str, object]:
    candidate = status.get("candidate") or {}
    hours = {key: candidate[key] for key in HOURS if key in candidate}
    cost = status.get("cost") or {}
    units = {key: cost[key] for key in UNIT_COSTS if key in cost}
    capacities = {
        f"{each['name']}/{CAPACITY}": each.get(CAPACITY) for each in status.get("variants") or ()
    }
    return {**_flat(status.get("scaling") or {}), **hours, **units, **capacities}


def _flat(samples: Json) -> dict[str, object]:
    """Return the samples by path: `curve` contains several."""
    by_path: dict[str, object] = {}
    for key, value in samples.items():
        nested = value.items() if isinstance(value, Mapping) else ()
        by_path |= {f"{key}.{name}": leaf for name, leaf in nested} if nested else {key: value}
    return by_path


def _facts(status: Json) -> Json:
    """Return the parts that are written immediately: all but samples, messages and times."""
    facts = {key: value for key, value in status.items() if key not in ("scaling", "lastDecision")}
    facts["conditions"] = [
        {key: condition.get(key) for key in ("type", "status", "reason", "observedGeneration")}
        for condition in status.get("conditions") or ()
    ]
    candidate = status.get("candidate") or {}
    facts["candidate"] = {key: value for key, value in candidate.items() if key not in HOURS}
    cost = status.get("cost") or {}
    facts["cost"] = {key: value for key, value in cost.items() if key not in UNIT_COSTS}
    decision = status.get("lastDecision") or {}
    facts["decided"] = [decision.get(key) for key in DECIDED]
    facts["source"] = (status.get("scaling") or {}).get("source")
    facts["variants"] = [_variant_facts(each) for each in status.get("variants") or ()]
    return facts


def _variant_facts(variant: Json) -> Json:
    """Return the facts of a variant: of its capacity, whether it is measured, and whether it is above 0."""
    capacity = variant.get(CAPACITY)
    return {**variant, CAPACITY: None if capacity is None else float(capacity) > 0}


def _policy_facts(status: Json) -> list[object]:
    conditions = [
        [condition.get(key) for key in ("type", "status", "reason")]
        for condition in status.get("conditions") or ()
    ]
    return [status.get("observedGeneration"), status.get("matchedPools"), conditions]


def _messages(status: Json) -> list[str]:
    return [condition.get("message", "") for condition in status.get("conditions") or ()]


def _changed(key: str, old: object, new: object) -> bool:
    key = key.rpartition("/")[2]
    if old is None or new is None or key not in FLOORS:
        return old != new and key != "holdUntil"
    before, after = float(str(old)), float(str(new))
    if key in REMAINDERS:
        before, after = 100 - before, 100 - after
    return abs(after - before) > max(FLOORS[key], DEAD_BAND * abs(before))


class _Change(NamedTuple):
    """A status whose changes are large enough to write."""

    urgency: Urgency
    name: tuple[str, str]
    body: Json
    now: float


@dataclass(slots=True)
class Statuses:
    """Writes the statuses of pools and policies."""

    writer: Writer
    store: ObjectStore
    schemas: ServedSchemas
    """Fields that an older CRD lacks are left out, because the API server would reject the whole status."""
    enqueue: Callable[[frozenset[str] | None], None]
    """Makes pools due, by UID; None is every pool."""
    _desired: dict[str, tuple[PoolStatus, float]] = field(default_factory=dict)
    """Newest status of each pool and its time, by UID, until it is written."""
    _written: dict[str, float] = field(default_factory=dict)
    """Time of the last write, by UID."""
    _unreadable: dict[str, int] = field(default_factory=dict)
    """Last generation that was reported unreadable, by UID."""

    def take_pool(self, uid: str, desired: PoolStatus, now: float) -> Urgency | None:
        """Store the status for `write_pool`; return its urgency, None if its changes are too small to write."""
        self._desired[uid] = desired, now
        change = self._change(uid)
        if change is None:
            del self._desired[uid]
            return None
        return change.urgency

    async def write_pool(self, uid: str, urgency: Urgency) -> bool:
        """Wait for the rate limit, then write the newest status if its changes are still large enough; return whether it was written.

        A write with the urgency of samples changes no fact, whatever the pool's status is by then.
        """
        await self.writer.budget.turn(urgency)
        change = self._change(uid)
        self._desired.pop(uid, None)
        if change is None or change.urgency < urgency:
            return False
        self._written[uid] = change.now + jitter(uid)
        request = _request(kinds.POOL, uid, change.name, change.body)
        self._record(kinds.POOL, await self.writer.send(kinds.POOL, "status", request))
        return True

    def _change(self, uid: str) -> _Change | None:
        pool = self.store.pools.get(uid)
        if pool is None or uid not in self._desired:
            return None
        desired, now = self._desired[uid]
        before, body = _json(pool.status), self._supported(kinds.POOL, desired)
        if not worth_writing(before, body, self._written.get(uid), now):
            return None
        urgency = Urgency.EVENT if _facts(before) == _facts(body) else Urgency.CONDITION
        return _Change(urgency, (pool.namespace, pool.name), body, now)

    async def write_policy(self, plan: PolicyPlan, now: float) -> bool:
        """Write a policy's status if it changed enough; return whether it was written."""
        policies = self.store.policies.values()
        policy = next((each for each in policies if each.name == plan.name), None)
        body = self._supported(kinds.POLICY, plan.status)
        if policy is None:
            return False
        before, last = _json(policy.status), self._written.get(policy.uid)
        if not policy_worth_writing(before, body, last, now):
            return False
        self._written[policy.uid] = now
        urgency = (
            Urgency.EVENT if _policy_facts(before) == _policy_facts(body) else Urgency.CONDITION
        )
        await self._apply(kinds.POLICY, policy.uid, (None, policy.name), body, urgency)
        return True

    async def write_unreadable(self, pool: Unreadable, status: PoolStatus) -> None:
        """Write `status` over the stored one of a pool with an unreadable spec, once for each generation.

        Raises:
            ClusterError: the error response of the API server.
        """
        if self._unreadable.get(pool.uid) != pool.generation:
            body = {**pool.status, **self._supported(kinds.POOL, status)}
            await self._apply(kinds.POOL, pool.uid, (pool.namespace, pool.name), body)
            self._unreadable[pool.uid] = pool.generation

    def forget(self, uid: str) -> None:
        """Drop the write history of a deleted pool."""
        self._desired.pop(uid, None)
        self._written.pop(uid, None)
        self._unreadable.pop(uid, None)

    def _supported(self, kind: ResourceKind, status: PoolStatus | PolicyStatus) -> dict[str, Any]:
        """Return a status in JSON, without the fields that the served CRD lacks."""
        body = _json(status)
        for path in self.schemas.of(kind.kind).lacking:
            part, _, below = path.partition(".")
            if part == "status":
                drop_field(body, below.split("."))
        return body

    async def _apply(
        self,
        kind: ResourceKind,
        uid: str,
        name: tuple[str | None, str],
        body: Json,
        urgency: Urgency = Urgency.CONDITION,
    ) -> None:
        request = _request(kind, uid, name, body)
        self._record(kind, await self.writer.write(kind, "status", request, urgency))

    def _record(self, kind: ResourceKind, answer: Json) -> None:
        """Store the answer to a write; an edit that it contains makes pools due, since the store ignores the edit's later watch event."""
        self.enqueue(self.store.upsert(kind, answer))


def _request(kind: ResourceKind, uid: str, name: tuple[str | None, str], body: Json) -> ApiRequest:
    metadata = {"name": name[1], "uid": uid}
    if name[0] is not None:
        metadata["namespace"] = name[0]
    manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "status": body,
    }
    query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
    return ApiRequest("PATCH", f"{kind.path(*name)}/status", manifest, query, APPLY)


def drop_field(value: object, path: Sequence[str]) -> None:
    """Drop a field from JSON, in every item where the path passes a list."""
    if isinstance(value, list):
        for item in value:
            drop_field(item, path)
    elif isinstance(value, dict):
        name, *below = path
        if below:
            drop_field(value.get(name), below)
        else:
            value.pop(name, None)


def jitter(uid: str) -> float:
    """Return 0 to 15 s, constant for a pool, so that the samples of many pools are not written at once."""
    return (sum(uid.encode()) % 97) / 97 * JITTER_SECONDS


def _json(status: PoolStatus | PolicyStatus) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
