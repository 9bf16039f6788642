"""One pool's plan, made so: status, children and pods side by side; what came of it is handed back."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.errors import ClusterError, ObjectNotFound, Rejected
from penstock_operator.observed import Acknowledgement, PoolView, Rejection
from penstock_operator.reconcile_state import ChildKey, child_key
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ActResults:
    """What came of a plan."""

    acknowledgements: Mapping[str, Acknowledgement] = field(default_factory=dict)
    rejected: dict[ChildKey, Rejection] = field(default_factory=dict)
    failure: ClusterError | None = None
    """The API server could not, or somebody else wrote first: visit again soon."""


@dataclass(frozen=True, slots=True)
class PoolActs:
    """Carries out plans, one pool at a time; pools do not wait for each other."""

    children: Children
    statuses: Statuses
    events: Events
    records: SettingsRecords

    async def act(
        self,
        plan: PoolPlan,
        view: PoolView,
        control: PodControl,
        should_retry: Callable[[ChildWrite], bool],
        now: float,
    ) -> ActResults:
        """Carry out a plan made from `view`.

        Raises:
            NotLeading: the Lease is not ours; nothing more was written.
        """
        acted = ActResults()
        _, _, acted.acknowledgements, _ = await asyncio.gather(
            self._status(plan, acted, now),
            self._children(plan, view, acted, should_retry),
            control.push(plan.pushes),
            self._record(plan, acted),
        )
        if plan.checkpoint is not None:
            await self._keep(plan, view, plan.checkpoint)
        for note in plan.events:
            try:
                await self.events.post(view.pool, note, now)
            except ClusterError as error:
                log.warning("an Event was lost: %s", error, extra=_about(plan, reason=note.reason))
        return acted

    async def _keep(self, plan: PoolPlan, view: PoolView, write: ChildWrite) -> None:
        """Keep the law's memory if it can be kept: without it a restart begins anew, and that is all."""
        try:
            await self.children.write(view, write)
        except ClusterError as error:
            log.info("the law's memory was not kept: %s", error, extra=_about(plan))

    async def _status(self, plan: PoolPlan, acted: ActResults, now: float) -> None:
        try:
            await self.statuses.write_pool(plan.uid, plan.status, now)
        except ObjectNotFound:
            return  # deleted meanwhile: its event is on the way
        except ClusterError as error:
            acted.failure = error

    async def _record(self, plan: PoolPlan, acted: ActResults) -> None:
        try:
            await self.records.keep(plan.uid, plan.record)
        except ObjectNotFound:
            return  # gone already
        except ClusterError as error:
            acted.failure = error

    async def _children(
        self,
        plan: PoolPlan,
        view: PoolView,
        acted: ActResults,
        should_retry: Callable[[ChildWrite], bool],
    ) -> None:
        for write in plan.writes:
            key = child_key(write)
            if not should_retry(write):
                continue
            try:
                await self.children.write(view, write)
            except (Rejected, ObjectNotFound) as error:
                acted.rejected[key] = Rejection(*key, error.reason, error.message)
                log.warning("%s %s was refused: %s", *key, error, extra=_about(plan))
            except ClusterError as error:
                acted.failure = error
                return
            else:
                _say(plan, write, key)


def _say(plan: PoolPlan, write: ChildWrite, key: ChildKey) -> None:
    text = "%s %s %s"
    log.info(text, write.write.value.lower(), *key, extra=_about(plan, kind=key[0], child=key[1]))


def _about(plan: PoolPlan, **more: object) -> Mapping[str, Mapping[str, object]]:
    return fields(namespace=plan.namespace, pool=plan.name, **more)
