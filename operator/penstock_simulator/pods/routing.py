"""`Router`: four routing methods, each exact between two slices. Pure.

A router receives all arrivals of a slice and advances every pod to its end. The results stay in the engines
(batches as index ranges of a queue), so that cost grows with batches, not with requests, where routing allows it.
"""

from collections.abc import Iterator
from heapq import heapify, heappush, heapreplace
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock_simulator.pods.engine import SimulatedEngine
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.pod import SimulatedPod
from penstock_simulator.scenario import Routing, Scenario

SLICE_SECONDS = 0.5
EVENT_SECONDS = 0.01
"""Time after which a request to an idle pod is looked at again: its batch has begun and cannot have ended."""
Times = NDArray[np.float64]
Served = tuple[list[float], SimulatedEngine]
"""A queue's arrivals, and an engine that took ranges of it."""


class Router(Protocol):
    """Routes requests to pods."""

    failed: list[float]
    """Arrivals of requests that found no Ready pod, or a full central queue."""
    without_pod: list[float]
    """Arrivals of requests that wait for a Ready pod."""
    met_start: list[float]
    """Arrivals of all requests that were held."""

    def advance(self, times: Times, start: float, end: float) -> None:
        """Route the arrivals of [start, end), slice by slice, and advance every pod to `end`."""

    def served(self) -> Iterator[Served]:
        """Yield every engine with the queue that it served."""

    def waiting(self) -> bool:
        """Return whether any request waits."""


def slices(times: Times, start: float, end: float) -> Iterator[tuple[Times, float, float]]:
    """Yield the arrivals of each slice of [start, end), and the slice's own beginning and end."""
    number = round((end - start) / SLICE_SECONDS)
    edges = start + SLICE_SECONDS * np.arange(number + 1)
    cuts = np.searchsorted(times, edges, side="left").tolist()
    for index in range(number):
        yield times[cuts[index] : cuts[index + 1]], float(edges[index]), float(edges[index + 1])


class PodQueues:
    """Base of routers whose pods have a queue each."""

    def __init__(self, scenario: Scenario, fleet: SimulatedFleet) -> None:
        self.failed: list[float] = []
        self.without_pod: list[float] = []
        self.met_start: list[float] = []
        self._fleet = fleet
        self._scenario = scenario
        self._random = np.random.default_rng([scenario.seed, 3])

    def served(self) -> Iterator[Served]:
        """Yield every engine with the queue that it served."""
        for pod in self._fleet.all:
            yield pod.arrivals, pod.engine

    def waiting(self) -> bool:
        """Return whether any request waits."""
        return bool(self.without_pod) or any(pod.unserved() for pod in self._fleet.live)


class PerConnection(PodQueues):
    """A plain Service: it balances connections, not requests."""

    def __init__(self, scenario: Scenario, fleet: SimulatedFleet) -> None:
        super().__init__(scenario, fleet)
        count = scenario.clients.connections
        self._pod = np.full(count, -1, dtype=np.int64)
        self._closes = np.zeros(count)
        self._requests = np.zeros(count, dtype=np.int64)
        self._known = -inf

    def advance(self, times: Times, start: float, end: float) -> None:
        """Send each arrival over a connection at random; connections reopen at the edges of slices."""
        chosen = [self._choose(len(part), begin) for part, begin, _ in slices(times, start, end)]
        if len(times):
            self._push(times, np.concatenate(chosen))
        for pod in self._fleet.live:
            pod.advance(end)

    def _choose(self, number: int, now: float) -> NDArray[np.int64]:
        self._reopen(now)
        used = self._random.integers(len(self._pod), size=number)
        self._requests += np.bincount(used, minlength=len(self._pod))
        return self._pod[used]

    def _push(self, times: Times, chosen: NDArray[np.int64]) -> None:
        least = np.min_scalar_type(-1 - len(self._fleet.all))  # of at most 16 bits: radix sort
        order = np.argsort(chosen.astype(least), kind="stable")
        ordered = times[order].tolist()
        upto = 0
        for index, number in enumerate(np.bincount(chosen + 1).tolist(), start=-1):
            if number:
                part = ordered[upto : upto + number]
                upto += number
                if index < 0:
                    self.failed.extend(part)
                else:
                    self._fleet.all[index].push(part)

    def _reopen(self, now: float) -> None:
        ready = [pod.index for pod in self._fleet.live if pod.accepts(now)]
        accepting = np.zeros(len(self._fleet.all) + 1, dtype=bool)  # the last: no pod
        accepting[ready] = True
        ended = (self._closes <= now) | (
            self._requests >= self._scenario.clients.connection_requests
        )
        closed = np.flatnonzero(ended | ~accepting[self._pod])
        if not len(closed):
            return
        self._pod[closed] = (
            np.array(ready)[self._random.integers(len(ready), size=len(closed))] if ready else -1
        )
        first = self._known == -inf
        ages = self._random.uniform(0.0 if first else 0.5, 1.5, size=len(closed))
        self._closes[closed] = now + self._scenario.clients.connection_seconds * ages
        self._requests[closed] = 0
        self._known = now


class PowerOfTwo(PodQueues):
    """Each request goes to the less loaded of two Ready pods."""

    def advance(self, times: Times, start: float, end: float) -> None:
        """Route request by request: each choice depends on the previous one."""
        for part, begin, until in slices(times, start, end):
            self._route(part, self._fleet.ready(begin))
            for pod in self._fleet.live:
                pod.advance(until)

    def _route(self, times: Times, ready: list[SimulatedPod]) -> None:
        if not ready:
            self.failed.extend(times.tolist())
            return
        pairs = self._random.integers(len(ready), size=(len(times), 2)).tolist()
        for at, (first, second) in zip(times.tolist(), pairs, strict=True):
            _less_loaded(ready[first], ready[second], at).push((at,))


class LeastRequest(PodQueues):
    """The gateway's choice: each request goes to a Ready pod with the fewest requests in flight, of a tie to any.

    Where the pool may be at zero, requests that find no pod are held until one is Ready.
    """

    def advance(self, times: Times, start: float, end: float) -> None:
        """Route request by request; pods advance only when a batch of theirs has ended."""
        for part, begin, until in slices(times, start, end):
            ready = self._fleet.ready(begin)
            if ready:
                self._release(ready, begin)
                self._route(part, ready, begin)
            else:
                self._hold(part.tolist())
            for pod in self._fleet.live:
                pod.advance(until)

    def _hold(self, times: list[float]) -> None:
        if self._scenario.settings.min_replicas == 0:
            self.without_pod += times
            self.met_start += times
        else:
            self.failed += times

    def _release(self, ready: list[SimulatedPod], begin: float) -> None:
        """Send what was held, in order of arrival; no batch of it begins before the pod is Ready."""
        if not self.without_pod:
            return
        for pod in ready:
            pod.engine.free_at = max(pod.engine.free_at, begin)
        waiting, self.without_pod = np.array(self.without_pod), []
        self._route(waiting, ready, begin)

    def _route(self, times: Times, ready: list[SimulatedPod], begin: float) -> None:
        loads = [pod.in_flight(begin) for pod in ready]
        events = [(_changes(pod, begin), at) for at, pod in enumerate(ready)]
        heapify(events)
        draws = self._random.random(len(times)).tolist()
        for arrival, draw in zip(times.tolist(), draws, strict=True):
            now = max(arrival, begin)
            while events[0][0] <= now:
                at = events[0][1]
                pod = ready[at]
                pod.advance(now)
                loads[at] = pod.in_flight(now)
                heapreplace(events, (_changes(pod, now), at))
            least = min(loads)
            ties = [at for at, load in enumerate(loads) if load == least]
            at = ties[int(draw * len(ties))]
            if not least:
                heappush(events, (now + EVENT_SECONDS, at))
            ready[at].push((arrival,))
            loads[at] += 1


def _changes(pod: SimulatedPod, now: float) -> float:
    """Return when the pod's requests in flight may fall next without a new one; a batch whose start is unknown has begun by then."""
    if pod.engine.free_at > now:
        return pod.engine.free_at
    return now + EVENT_SECONDS if pod.head < len(pod.arrivals) else inf


def _less_loaded(pod: SimulatedPod, other: SimulatedPod, now: float) -> SimulatedPod:
    pod.advance(now)
    other.advance(now)
    return pod if pod.in_flight(now) <= other.in_flight(now) else other


class CentralQueue:
    """One queue for all pods, from which a free pod takes its next batch; models a gateway that queues requests."""

    def __init__(self, scenario: Scenario, fleet: SimulatedFleet) -> None:
        self.failed: list[float] = []
        self.without_pod: list[float] = []
        self.met_start: list[float] = []
        self._fleet = fleet
        self._depth = scenario.max_queue_depth
        self._timeout = scenario.clients.timeout_seconds
        self._arrivals: list[float] = []
        self._head = 0

    def advance(self, times: Times, start: float, end: float) -> None:
        """Let free pods pull batches, the longest idle first."""
        for part, begin, until in slices(times, start, end):
            self._serve(part, begin, until)

    def _serve(self, times: Times, start: float, end: float) -> None:
        self._arrivals.extend(times.tolist())
        ready = self._fleet.ready(start)
        while ready and self._head < len(self._arrivals):
            pod = min(ready, key=lambda pod: pod.engine.free_at)
            at = max(pod.engine.free_at, self._arrivals[self._head], start)
            if at >= end:
                break
            self._pull(pod, at)
        self._reject(len(ready))
        self._share(ready, len(times))

    def _pull(self, pod: SimulatedPod, at: float) -> None:
        while self._head < len(self._arrivals) and self._arrivals[self._head] < at - self._timeout:
            self._head += 1
        last = self._head
        top = min(self._head + pod.cap, len(self._arrivals))
        while last < top and self._arrivals[last] <= at:
            last += 1
        if last > self._head:
            pod.engine.queue = self._arrivals
            pod.engine.run(self._head, last, at)
            self._head = last

    def _reject(self, ready: int) -> None:
        full = self._head + self._depth * max(ready, 1)
        self.failed.extend(self._arrivals[full:])
        del self._arrivals[full:]

    def _share(self, ready: list[SimulatedPod], received: int) -> None:
        """Attribute the central queue to the Ready pods in equal shares, so that laws observe it like queues of pods."""
        for pod in self._fleet.live:
            pod.shared_waiting = 0.0
        for pod in ready:
            pod.shared_waiting = (len(self._arrivals) - self._head) / len(ready)
            pod.received += received / len(ready)

    def served(self) -> Iterator[Served]:
        """Yield every engine with the queue that it served."""
        for pod in self._fleet.all:
            yield self._arrivals, pod.engine

    def waiting(self) -> bool:
        """Return whether any request waits."""
        return self._head < len(self._arrivals)


def router(scenario: Scenario, fleet: SimulatedFleet) -> Router:
    """Return the scenario's router."""
    if scenario.routing is Routing.CONNECTION:
        return PerConnection(scenario, fleet)
    if scenario.routing is Routing.POWER_OF_TWO:
        return PowerOfTwo(scenario, fleet)
    if scenario.routing is Routing.LEAST_REQUEST:
        return LeastRequest(scenario, fleet)
    return CentralQueue(scenario, fleet)
