"""Execution of a pool's plan: writes status, children and limits concurrently, and returns the results."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from penstock_api.types.scaling import UnsetScalingMode
from penstock_operator.act.background import Background, Deferred
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.errors import Altered, ClusterError, ObjectNotFound, Rejected
from penstock_operator.observed import Acknowledgement, PoolView, Rejection
from penstock_operator.reconcile_state import BackOffs, ChildKey, child_key
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)

STATUS, RECORD = "status ", "settings record "
"""Prefixes of the keys of back-offs; the UID of the pool follows."""


@dataclass(slots=True)
class ActResults:
    """Results of a plan."""

    acknowledgements: Mapping[str, Acknowledgement] = field(default_factory=dict)
    stored: set[ChildKey] = field(default_factory=set)
    """Children that were created or changed as planned."""
    rejected: dict[ChildKey, Rejection] = field(default_factory=dict)
    failure: ClusterError | None = None
    """The API server failed, or another writer was first: the pool is requeued with back-off."""


@dataclass(frozen=True, slots=True)
class PoolActs:
    """Executes the plans of single pools."""

    children: Children
    statuses: Statuses
    events: Events
    records: SettingsRecords
    background: Background = field(default_factory=Background)
    _back_offs: BackOffs = field(default_factory=BackOffs)
    """Of rejected statuses and records, which do not slow down the pool's control loop."""

    async def act(
        self,
        plan: PoolPlan,
        view: PoolView,
        control: PodControl,
        should_retry: Callable[[ChildWrite], bool],
        now: float,
    ) -> ActResults:
        """Execute a plan that was made from `view`; samples, checkpoint and Events are written in the background.

        Raises:
            NotLeading: this process lost the Lease; nothing more was written.
        """
        results = ActResults()
        if _stores_first(plan, view) and not await self._status(plan, results, now):
            return results
        _, _, results.acknowledgements, _ = await asyncio.gather(
            self._status(plan, results, now),
            self._children(plan, view, results, should_retry),
            control.push(plan.pushes),
            self._record(plan, results, now),
        )
        if plan.checkpoint is not None:
            write = replace(self.children, urgency=Urgency.EVENT).write
            self.background.start(plan, Deferred.CHECKPOINT, partial(write, view, plan.checkpoint))
        for note in plan.events:
            self.events.add(view.pool, note, now)
        write_events = partial(self.events.write_due, view.pool, now)
        self.background.start(plan, Deferred.EVENTS, write_events)
        return results

    def forget(self, uid: str) -> None:
        """Drop everything about a deleted pool; its settings record is deleted at the next sweep."""
        self.records.request_sweep()
        self.background.cancel(uid, *Deferred)
        self.statuses.forget(uid)
        self.events.forget(uid)
        for what in (STATUS, RECORD):
            self._back_offs.end(what + uid)

    async def _status(self, plan: PoolPlan, results: ActResults, now: float) -> bool:
        """Write the status if it changed enough, samples in the background; return whether all its facts are written."""
        urgency = self.statuses.take_pool(plan.uid, plan.status, now)
        if urgency is None:
            return True
        write = partial(self.statuses.write_pool, plan.uid, urgency)
        if urgency is Urgency.EVENT:
            self.background.start(plan, Deferred.SAMPLES, write)
            return True
        self.background.cancel(plan.uid, Deferred.SAMPLES)
        return await self._store(write, STATUS, plan, results, now)

    async def _record(self, plan: PoolPlan, results: ActResults, now: float) -> None:
        write = partial(self.records.keep, plan.uid, plan.record)
        await self._store(write, RECORD, plan, results, now)

    async def _store(
        self,
        write: Callable[[], Awaitable[object]],
        what: str,
        plan: PoolPlan,
        results: ActResults,
        now: float,
    ) -> bool:
        """Run a write unless it is in back-off; return whether it succeeded."""
        key = what + plan.uid
        if not self._back_offs.due(key, now):
            return False
        try:
            await write()
        except ObjectNotFound:
            return False  # the object was deleted; its event will arrive
        except Rejected as error:
            self._back_offs.extend(key, now)
            log.warning(
                "the %s was rejected, which is retried: %s", what.strip(), error, extra=_about(plan)
            )
            return False
        except ClusterError as error:
            results.failure = error
            return False
        self._back_offs.end(key)
        return True

    async def _children(
        self,
        plan: PoolPlan,
        view: PoolView,
        results: ActResults,
        should_retry: Callable[[ChildWrite], bool],
    ) -> None:
        for write in plan.writes:
            key = child_key(write)
            if not should_retry(write):
                continue
            try:
                await self.children.write(view, write)
            except (Rejected, ObjectNotFound) as error:
                stored = error.stored if isinstance(error, Altered) else None
                results.rejected[key] = Rejection(*key, error.reason, error.message, stored)
                log.warning("%s %s was not stored as written: %s", *key, error, extra=_about(plan))
            except ClusterError as error:
                results.failure = error
                return
            else:
                if write.write is not Write.DELETE:
                    results.stored.add(key)
                _log_write(plan, write, key)


def _stores_first(plan: PoolPlan, view: PoolView) -> bool:
    """Return whether the status comes before the children: it has the meaning of an unset mode for the first time."""
    decided = plan.status.unset_scaling_mode == UnsetScalingMode.BY_TARGET
    return decided and view.pool.status.unset_scaling_mode is None


def _log_write(plan: PoolPlan, write: ChildWrite, key: ChildKey) -> None:
    log.info(
        "%s %s %s", write.write.value.lower(), *key, extra=_about(plan, kind=key[0], child=key[1])
    )


def _about(plan: PoolPlan, **more: object) -> Mapping[str, Mapping[str, object]]:
    return fields(namespace=plan.namespace, pool=plan.name, **more)
