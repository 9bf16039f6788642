"""Waits for many pools, creates them in portions, and reports the stage that is waited for."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from rich.console import Console
from urllib3.exceptions import HTTPError

from tests.bench.scale.operator import OperatorMetrics, ScaleOperator
from tests.bench.scale.plane import NAMESPACE
from tests.bench.scale.pods import Pods
from tests.bench.scale.stages import Patience, Stages
from tests.support.kube.api import Api, ApiError
from tests.support.kube.pools import emulated

SPEC = emulated(replicas=1, scaling={"mode": "Auto", "algorithm": "CapacityAtObjective"})
LOOK_SECONDS = 15.0
"""Interval of scrapes, like Prometheus': the exposition of thousands of pools costs the operator processor time."""
SAY_SECONDS = 30.0
MAX_WAIT_SECONDS = 7200.0
"""Upper bound on one wait, even with progress."""
AHEAD = 250
"""Largest number of created pools that are not Ready; more would only queue for the operator's 50 writes a second."""
SIDE_BY_SIDE = 4


class StoppedError(RuntimeError):
    """There was no progress for too long."""


@dataclass
class ScaleWatch:
    """Creates and observes the pools of a control plane."""

    api: Api
    operator: ScaleOperator
    pods: Pods
    size: int
    patience_seconds: float
    console: Console
    created: int = 0
    most_megabytes: float = 0.0
    _said: float = 0.0
    _counts: dict[str, int] = field(default_factory=dict)

    async def until_all(self, what: str, *, grows: bool = False) -> OperatorMetrics:
        """Return once the running operator process has decided on every pool and its pod is Ready and acknowledged.

        With `grows`, pools are created meanwhile.

        Raises:
            StoppedError: there was no progress for `patience_seconds`, or the wait takes too long.
        """
        patience, begun = Patience(self.patience_seconds), time.monotonic()
        while True:
            metrics = await asyncio.to_thread(self.operator.scrape)
            stages = await asyncio.to_thread(self._stages, metrics)
            now = time.monotonic()
            if metrics is not None:
                self.most_megabytes = max(self.most_megabytes, metrics.resident_megabytes)
                if stages.all(self.size):
                    return metrics
            self._say(f"{what}, {now - begun:.0f} s: {stages}{_usage(metrics)}", stages, now)
            if patience.spent((stages, _worked(metrics)), now) or now - begun > MAX_WAIT_SECONDS:
                raise StoppedError(f"given up after {now - begun:.0f} s: {stages}; waiting for {stages.behind(self.size)}")  # fmt: skip
            if grows:
                await asyncio.to_thread(self._grow, min(self.size, stages.acknowledged + AHEAD))
            await asyncio.sleep(LOOK_SECONDS)

    def grown(self, size: int) -> None:
        """Count `size` pools as created and running, because they were copied."""
        self.size = self.created = size
        self.pods.up.update(self.pods.uids.values())

    def _stages(self, metrics: OperatorMetrics | None) -> Stages:
        figures = metrics.figures if metrics is not None else {}
        ready = int(figures.get("replicas_ready", 0))
        return Stages(
            pools=self.created,
            decided=metrics.pools if metrics is not None else 0,
            deployments=self._count_of("/apis/apps/v1/deployments"),
            pods=self._count_of("/api/v1/pods"),
            up=len(self.pods.up),
            ready=ready,
            acknowledged=max(ready - int(figures.get("unacknowledged_pods", ready)), 0),
        )

    def _count_of(self, path: str) -> int:
        """Return the number of objects without reading them, or the last known number if the request fails."""
        with suppress(ApiError, HTTPError):
            page = self.api.request("GET", f"{path}?limit=1")
            more = page["metadata"].get("remainingItemCount") or 0
            self._counts[path] = len(page["items"]) + more
        return self._counts.get(path, 0)

    def _grow(self, target: int) -> None:
        """Create pools up to a number; failed creations are repeated in the next iteration."""
        numbers = range(self.created, target)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            done = list(threads.map(self._make, numbers))
        self.created += done.index(False) if False in done else len(done)

    def _make(self, number: int) -> bool:
        head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePool", "spec": SPEC}
        try:
            self.api.create(
                {**head, "metadata": {"name": f"pool-{number}", "namespace": NAMESPACE}}
            )
        except ApiError as error:
            return error.status == HTTPStatus.CONFLICT  # it exists: an earlier answer was lost
        except HTTPError:
            return False
        return True

    def _say(self, text: str, stages: Stages, now: float) -> None:
        if now - self._said >= SAY_SECONDS:
            self._said = now
            self.console.print(f"{text}; waiting for {stages.behind(self.size)}")


def _worked(metrics: OperatorMetrics | None) -> object:
    """Return values that change while the operator works: its writes, and its CPU time in tens of seconds."""
    return metrics and (metrics.figures.get("writes_total"), metrics.cpu_seconds // 10)


def _usage(metrics: OperatorMetrics | None) -> str:
    if metrics is None:
        return "; the operator does not answer yet"
    writes = metrics.figures.get("writes_total", 0)
    return f", {writes:.0f} writes, {metrics.resident_megabytes:.0f} MB, {metrics.cpu_seconds:.0f} s of CPU"
