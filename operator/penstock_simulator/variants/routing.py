"""`ByCapacity`: a router whose pods have weights, as a gateway with weighted least-request. Pure."""

from heapq import heapify, heappush, heapreplace
from math import inf

from penstock_simulator.pods.pod import SimulatedPod
from penstock_simulator.pods.routing import (
    EVENT_SECONDS,
    PerConnection,
    PodQueues,
    Router,
    Times,
    slices,
)
from penstock_simulator.scenario import ImpossibleScenario, Routing
from penstock_simulator.variants.fleet import VariantFleet
from penstock_simulator.variants.scenario import VariantsScenario


class ByCapacity(PodQueues):
    """Each request goes to the Ready pod with the fewest requests in flight for its weight, of a tie to the heavier one."""

    def __init__(self, scenario: VariantsScenario, fleet: VariantFleet) -> None:
        super().__init__(scenario.world, fleet)
        self._shares = fleet

    def advance(self, times: Times, start: float, end: float) -> None:
        """Route request by request; pods advance only when a batch of theirs has ended."""
        for part, begin, until in slices(times, start, end):
            ready = self._fleet.ready(begin)
            if ready:
                self._route(part.tolist(), ready, begin)
            else:
                self.failed += part.tolist()
            for pod in self._fleet.live:
                pod.advance(until)

    def _route(self, times: list[float], ready: list[SimulatedPod], begin: float) -> None:
        per_request = [1.0 / max(self._shares.shares.get(pod.variant, 1.0), 1e-6) for pod in ready]
        loads = [(pod.in_flight(begin) + 1) * each for pod, each in zip(ready, per_request, strict=True)]  # fmt: skip
        events = [(_changes(pod, begin), at) for at, pod in enumerate(ready)]
        heapify(events)
        for arrival in times:
            while events[0][0] <= arrival:
                at = events[0][1]
                pod = ready[at]
                pod.advance(arrival)
                loads[at] = (pod.in_flight(arrival) + 1) * per_request[at]
                heapreplace(events, (_changes(pod, arrival), at))
            at = loads.index(min(loads))
            if loads[at] <= per_request[at]:
                heappush(events, (arrival + EVENT_SECONDS, at))
            ready[at].push((arrival,))
            loads[at] += per_request[at]


def _changes(pod: SimulatedPod, now: float) -> float:
    """Return when the pod's requests in flight may fall next without a new one."""
    if pod.engine.free_at > now:
        return pod.engine.free_at
    return now + EVENT_SECONDS if pod.head < len(pod.arrivals) else inf


def variant_router(scenario: VariantsScenario, fleet: VariantFleet) -> Router:
    """Return the router: weights by capacity at a gateway, or a plain Service, which gives each pod as many connections.

    Raises:
        ImpossibleScenario: another routing.
    """
    routing = scenario.world.routing
    if routing is Routing.CONNECTION:
        return PerConnection(scenario.world, fleet)
    if routing is Routing.LEAST_REQUEST:
        return ByCapacity(scenario, fleet)
    raise ImpossibleScenario(
        f"variants with {routing} routing: use {Routing.LEAST_REQUEST} or {Routing.CONNECTION}"
    )
