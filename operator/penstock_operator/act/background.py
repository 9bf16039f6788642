"""Background writes of pools: status samples, checkpoints and Events, which have the lowest priority in the rate limit."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from penstock_operator.decide.plan import PoolPlan
from penstock_operator.errors import ClusterError, NotLeading, ObjectNotFound
from penstock_operator.telemetry import metrics
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)


class Deferred(StrEnum):
    """What is written in the background."""

    SAMPLES = "samples of the status"
    CHECKPOINT = "the checkpoint"
    EVENTS = "Events"


@dataclass(frozen=True, slots=True)
class Background:
    """Runs at most one write per pool and kind at a time; while one runs, further ones are left to later passes."""

    _tasks: dict[tuple[str, Deferred], asyncio.Task[None]] = field(default_factory=dict)

    def start(self, plan: PoolPlan, what: Deferred, write: Callable[[], Awaitable[object]]) -> None:
        """Start a write for the plan's pool, unless one of the same kind is running; failures are only logged."""
        key = plan.uid, what
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(_run(plan, what, write), name=what)
            self._tasks[key].add_done_callback(lambda _: self._tasks.pop(key))

    def cancel(self, uid: str, *what: Deferred) -> None:
        """Cancel writes of a pool."""
        for each in what:
            if (task := self._tasks.get((uid, each))) is not None:
                task.cancel()


async def _run(plan: PoolPlan, what: Deferred, write: Callable[[], Awaitable[object]]) -> None:
    about = fields(namespace=plan.namespace, pool=plan.name)
    try:
        await write()
    except (NotLeading, ObjectNotFound):
        return  # the next leader writes it; a deleted pool needs none
    except ClusterError as error:
        log.warning("failed to write %s, which a later pass retries: %s", what, error, extra=about)
    except Exception:
        metrics.POOL_FAILURES.labels("NotActed").inc()
        log.exception("failed to write %s, which a later pass retries", what, extra=about)
