"""`NodeReader`: labels of nodes, read by name and only for pools with prices by node label.

The reader needs the permission `get` on nodes only, neither list nor watch, and transfers only metadata. Labels that prices
depend on hardly ever change, so they are read again once an hour, and stay while that fails. Without the permission only a
pod's own nodeSelector is known; that is tried again every five minutes.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from http import HTTPStatus

from penstock_operator.errors import ClusterError
from penstock_operator.kube.client import ApiClient, ApiRequest
from penstock_operator.kube.kinds import NODE
from penstock_operator.observed import NodeView

LABEL_SECONDS = 3600.0
FAILURE_SECONDS = 30.0
FORBIDDEN_SECONDS = 300.0
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
FORBIDDEN = "the operator may not read nodes: set rbac.readNodes of the chart"


@dataclass(frozen=True, slots=True)
class _NodeRecord:
    """The labels of one node, or why they are unknown."""

    until: float
    """Time at which it is read again."""
    labels: dict[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(slots=True)
class NodeReader:
    """Reads and caches the labels of nodes."""

    cluster: ApiClient
    _records: dict[str, _NodeRecord] = field(default_factory=dict)
    _reads: dict[str, asyncio.Task[_NodeRecord]] = field(default_factory=dict)
    """Reads under way: the pools of a pass share nodes."""
    _forbidden_until: float = float("-inf")

    async def read(self, nodes: Collection[str], now: float) -> NodeView:
        """Return the labels of these nodes; failures are part of the result."""
        self._records = {
            name: each
            for name, each in self._records.items()
            if now < each.until + FORBIDDEN_SECONDS
        }
        records = await asyncio.gather(*(self._record(name, now) for name in sorted(nodes)))
        labels = {
            name: record.labels
            for name, record in zip(sorted(nodes), records, strict=True)
            if not record.problem
        }
        return NodeView(labels, next((each.problem for each in records if each.problem), ""))

    async def _record(self, name: str, now: float) -> _NodeRecord:
        known = self._records.get(name)
        if known is not None and 0 < known.until - now <= LABEL_SECONDS:
            return known
        if 0 < self._forbidden_until - now <= FORBIDDEN_SECONDS:
            return self._kept(name, self._forbidden_until, FORBIDDEN)
        task = self._reads.get(name)
        if task is None:
            task = asyncio.create_task(self._get(name, now))
            self._reads[name] = task
            task.add_done_callback(lambda _: self._reads.pop(name, None))
        return await asyncio.shield(task)

    async def _get(self, name: str, now: float) -> _NodeRecord:
        request = ApiRequest("GET", NODE.path(name=name), accept=METADATA_ONLY)
        try:
            answer = await self.cluster.send(request)
        except ClusterError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._forbidden_until = now + FORBIDDEN_SECONDS
                return self._kept(name, self._forbidden_until, FORBIDDEN)
            if error.status == HTTPStatus.NOT_FOUND:
                self._records.pop(name, None)
            problem = f"node {name} cannot be read ({error.reason})"
            return self._kept(name, now + FAILURE_SECONDS, problem)
        record = _NodeRecord(now + LABEL_SECONDS, answer["metadata"].get("labels") or {})
        self._records[name] = record
        return record

    def _kept(self, name: str, until: float, problem: str) -> _NodeRecord:
        """Return the labels of a node as read last, until it is read again; without any the problem."""
        known = self._records.get(name)
        if known is None or known.problem:
            known = _NodeRecord(until, problem=problem)
        record = self._records[name] = _NodeRecord(until, known.labels, known.problem)
        return record
