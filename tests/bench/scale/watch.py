"""Waiting for many pools: more are made while those that are made become Ready, and every wait says for whom."""

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
"""As often as a Prometheus would: telling of thousands of pools is work for the operator."""
SAY_SECONDS = 30.0
LONGEST_SECONDS = 7200.0
"""Of one wait, whatever moves."""
AHEAD = 250
"""Pools that are made and not Ready yet: more would only wait, for the operator's 50 writes a second or for a busy machine."""
SIDE_BY_SIDE = 4


class StoppedError(RuntimeError):
    """Nothing moves any more."""


@dataclass
class ScaleWatch:
    """One control plane's pools."""

    api: Api
    operator: ScaleOperator
    pods: Pods
    size: int
    patience_seconds: float
    console: Console
    made: int = 0
    most_megabytes: float = 0.0
    _said: float = 0.0
    _counts: dict[str, int] = field(default_factory=dict)

    async def until_all(self, what: str, *, grows: bool = False) -> OperatorMetrics:
        """Return once the running operator process has decided on every pool and seen its pod Ready and obeying.

        `grows`: pools are made on the way.

        Raises:
            StoppedError: nothing has moved for as long as patience lasts, or it takes hours.
        """
        patience, begun = Patience(self.patience_seconds), time.monotonic()
        while True:
            told = await asyncio.to_thread(self.operator.tell)
            stages = await asyncio.to_thread(self._stages, told)
            now = time.monotonic()
            if told is not None:
                self.most_megabytes = max(self.most_megabytes, told.resident_megabytes)
                if stages.all(self.size):
                    return told
            self._say(f"{what}, {now - begun:.0f} s: {stages}{_usage(told)}", stages, now)
            if patience.spent((stages, _worked(told)), now) or now - begun > LONGEST_SECONDS:
                raise StoppedError(f"given up after {now - begun:.0f} s: {stages}; waiting for {stages.behind(self.size)}")  # fmt: skip
            if grows:
                await asyncio.to_thread(self._grow, min(self.size, stages.acknowledged + AHEAD))
            await asyncio.sleep(LOOK_SECONDS)

    def grown(self, size: int) -> None:
        """Take it that so many pools are there and up: they were copied."""
        self.size = self.made = size
        self.pods.up.update(self.pods.uids.values())

    def _stages(self, told: OperatorMetrics | None) -> Stages:
        figures = told.figures if told is not None else {}
        ready = int(figures.get("replicas_ready", 0))
        return Stages(
            pools=self.made,
            decided=told.pools if told is not None else 0,
            deployments=self._held("/apis/apps/v1/deployments"),
            pods=self._held("/api/v1/pods"),
            up=len(self.pods.up),
            ready=ready,
            acknowledged=max(ready - int(figures.get("unacknowledged_pods", ready)), 0),
        )

    def _held(self, path: str) -> int:
        """Return how many objects there are, without reading them; where the API server has no time, how many there were."""
        with suppress(ApiError, HTTPError):
            page = self.api.request("GET", f"{path}?limit=1")
            more = page["metadata"].get("remainingItemCount") or 0
            self._counts[path] = len(page["items"]) + more
        return self._counts.get(path, 0)

    def _grow(self, target: int) -> None:
        """Make pools up to a number; those that the API server has no time for are made at the next look."""
        numbers = range(self.made, target)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            done = list(threads.map(self._make, numbers))
        self.made += done.index(False) if False in done else len(done)

    def _make(self, number: int) -> bool:
        head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePool", "spec": SPEC}
        try:
            self.api.create(
                {**head, "metadata": {"name": f"pool-{number}", "namespace": NAMESPACE}}
            )
        except ApiError as error:
            return error.status == HTTPStatus.CONFLICT  # it was there: an earlier answer was lost
        except HTTPError:
            return False
        return True

    def _say(self, text: str, stages: Stages, now: float) -> None:
        if now - self._said >= SAY_SECONDS:
            self._said = now
            self.console.print(f"{text}; waiting for {stages.behind(self.size)}")


def _worked(told: OperatorMetrics | None) -> object:
    """Return what changes while the operator works: its writes, and every ten seconds of CPU."""
    return told and (told.figures.get("writes_total"), told.cpu_seconds // 10)


def _usage(told: OperatorMetrics | None) -> str:
    if told is None:
        return "; the operator does not answer yet"
    writes = told.figures.get("writes_total", 0)
    return (
        f", {writes:.0f} writes, {told.resident_megabytes:.0f} MB, {told.cpu_seconds:.0f} s of CPU"
    )
