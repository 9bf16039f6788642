"""`Clairvoyant`: searches the cheapest schedule for a trace that is known in full, as a lower bound of cost. Pure.

1. A table: misses per time slot at every fixed count of a grid, each from a simulated run. Clients of these runs have
   short timeouts, so that a slot's misses are not caused by an earlier backlog.
2. Dynamic programming over slots: replica-seconds, a cold start for each added replica, and a price per miss; the price is
   bisected until the allowed misses are used.
3. Verification: the schedule is simulated with foresight (replicas are Ready when planned, and billed from their cold start
   before), and likewise with every replica one slot earlier, for routing by connections. The misses allowed in step 2 are
   bisected until the verified run attains; misses of a run above the table are entered into it.
4. Repair: in the last round, slots with the most misses get one more replica until the run attains.

The result is a feasible schedule, so the true bound is at most its cost. The warm-up is planned like the rest, although
its misses do not count. `fluid_gpu_hours` is a bound that no law can beat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from penstock_simulator.baselines.fixed import Planned, fixed
from penstock_simulator.outcome import RunSummary, on_time, outcome
from penstock_simulator.pods.pod import LINGER_SECONDS
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import Routing, Scenario
from penstock_simulator.simulation import RunRecord, simulate

SLOT_SECONDS = 30.0
ROUNDS, ROUNDS_AGAIN = 7, 4
SHARES, SHARES_AGAIN = (0.05, 8.0), (0.4, 2.5)
"""Range of the allowed misses that is searched, since the table is inexact; AGAIN: around the result of another cold
start's search."""
HOPELESS = 1.03
"""Cost of a cap's plan by the table, relative to the best cap's, above which the cap is not searched."""
REPAIRS = 6
Table = NDArray[np.float64]
"""Misses, by slot and count - 1."""


@dataclass(frozen=True, slots=True)
class VerifiedSchedule:
    """Counts per slot, with the outcome of their simulation."""

    counts: tuple[int, ...]
    cap: int
    outcome: RunSummary


class Clairvoyant:
    """Searches schedules for one trace; the tables of misses are reused, since they do not depend on cold starts."""

    def __init__(self, arrivals: Times, caps: Sequence[int], points: int = 14) -> None:
        self._arrivals = arrivals
        self._caps = sorted(caps, reverse=True)
        self._points = points
        self._tables: dict[tuple[int, Routing, int], Table] = {}
        self._shares: dict[tuple[int, int], float] = {}

    def best(self, scenario: Scenario) -> VerifiedSchedule | None:
        """Return the cheapest verified schedule over the caps; None if none attains within the bounds."""
        best, lowest = None, inf
        allowed = self._allowed(scenario)
        for cap in self._caps:
            table = self._table(scenario, cap)
            predicted = planned_seconds(scenario, cheapest(scenario, table, allowed))
            if best is not None and predicted > HOPELESS * lowest:
                continue
            lowest = min(lowest, predicted)
            for lead in (0, 1) if scenario.routing is Routing.CONNECTION else (0,):
                schedule = self._search(scenario, cap, table.copy(), lead)
                if schedule is not None and _cheaper(schedule, best):
                    best = schedule
        return best

    def _allowed(self, scenario: Scenario) -> float:
        return scenario.settings.late.request * float(
            (self._arrivals >= scenario.warm_up_seconds).sum()
        )

    def _table(self, scenario: Scenario, cap: int) -> Table:
        key = (cap, scenario.routing, scenario.seed)
        if key not in self._tables:
            self._tables[key] = miss_table(scenario, self._arrivals, cap, self._points)
        return self._tables[key]

    def _search(
        self, scenario: Scenario, cap: int, table: Table, lead: int
    ) -> VerifiedSchedule | None:
        arrivals, allowed = self._arrivals, self._allowed(scenario)
        known = self._shares.get((cap, lead))
        rounds, width = (ROUNDS, SHARES) if known is None else (ROUNDS_AGAIN, SHARES_AGAIN)
        first = 1.0 if known is None else known
        low, high, best = first * width[0], first * width[1], None
        for index in range(rounds):
            share = first if index == 0 else sqrt(low * high)
            counts = early(cheapest(scenario, table, share * allowed), lead)
            run = _run(scenario, arrivals, cap, counts)
            tried = VerifiedSchedule(counts, cap, outcome(run))
            if tried.outcome.attainment < scenario.target:
                high = share
                learn(table, counts, _misses(run, len(counts)))
                tried = _repaired(scenario, arrivals, tried) if index == rounds - 1 else tried
            else:
                low = share
                self._shares[cap, lead] = share
            if tried.outcome.attainment >= scenario.target and _cheaper(tried, best):
                best = tried
        return best


def clairvoyant(
    scenario: Scenario, arrivals: Times, caps: Sequence[int], points: int = 14
) -> VerifiedSchedule | None:
    """Return the cheapest verified schedule over the caps; None if none attains within the bounds."""
    return Clairvoyant(arrivals, caps, points).best(scenario)


def early(counts: tuple[int, ...], lead: int) -> tuple[int, ...]:
    """Return the counts with every replica Ready `lead` slots before: connections find a new pod only as they age."""
    return tuple(max(counts[slot : slot + lead + 1]) for slot in range(len(counts)))


def learn(table: Table, counts: tuple[int, ...], misses: NDArray[np.float64]) -> None:
    """Raise the table where a failed schedule missed more: fewer replicas would miss at least as much."""
    for slot, count in enumerate(counts):
        table[slot, :count] = np.maximum(table[slot, :count], misses[slot])


def _cheaper(schedule: VerifiedSchedule, other: VerifiedSchedule | None) -> bool:
    return other is None or schedule.outcome.gpu_hours < other.outcome.gpu_hours


def _run(scenario: Scenario, arrivals: Times, cap: int, counts: tuple[int, ...]) -> RunRecord:
    law = Planned("clairvoyant", counts, SLOT_SECONDS, cap)
    return simulate(replace(scenario, foresight=True), law, arrivals)


def _repaired(scenario: Scenario, arrivals: Times, tried: VerifiedSchedule) -> VerifiedSchedule:
    """Add one replica to the slots with the most misses, a tenth of the slots at a time."""
    counts, top = np.array(tried.counts), scenario.settings.max_replicas
    for _ in range(REPAIRS):
        run = _run(scenario, arrivals, tried.cap, tuple(counts.tolist()))
        tried = VerifiedSchedule(tuple(counts.tolist()), tried.cap, outcome(run))
        if tried.outcome.attainment >= scenario.target:
            break
        worst = np.argsort(_misses(run, len(counts)))[-max(1, len(counts) // 10) :]
        counts[worst] = np.minimum(counts[worst] + 1, top)
    return tried


def miss_table(scenario: Scenario, arrivals: Times, cap: int, points: int) -> Table:
    """Return misses per slot for every count up to the maximum; between grid points their logarithm is interpolated."""
    settings = scenario.settings
    slots = int(arrivals[-1] // SLOT_SECONDS) + 1
    impatient = replace(scenario.clients, timeout_seconds=2 * scenario.patience_seconds)
    lowest = max(settings.min_replicas, 1)
    grid = np.unique(np.geomspace(lowest + 1, settings.max_replicas, points).round().astype(int))
    rows = []
    for count in grid.tolist():
        world = replace(scenario, clients=impatient, start_replicas=count, foresight=True)
        rows.append(_misses(simulate(world, fixed(count, cap), arrivals), slots))
    counts = np.arange(1, settings.max_replicas + 1)
    columns = np.log1p(np.array(rows))
    lines = [np.interp(counts, grid, columns[:, slot]) for slot in range(slots)]
    table = np.expm1(np.array(lines))
    table[:, : lowest - 1] = np.inf
    return table


def _misses(run: RunRecord, slots: int) -> NDArray[np.float64]:
    good = on_time(run)
    edges = np.arange(slots + 1) * SLOT_SECONDS
    missed = np.histogram(run.arrivals, edges)[0] - np.histogram(good, edges)[0]
    return np.asarray(missed, dtype=np.float64)


def cheapest(scenario: Scenario, table: Table, allowed: float) -> tuple[int, ...]:
    """Return the cheapest counts whose misses by the table are at most `allowed`."""
    low, high = 0.0, 1.0
    while _total(table, _plan(scenario, table, high)) > allowed and high < 1e6:
        low, high = high, high * 4
    for _ in range(30):
        price = (low + high) / 2
        if _total(table, _plan(scenario, table, price)) > allowed:
            low = price
        else:
            high = price
    return _plan(scenario, table, high)


def _total(table: Table, counts: tuple[int, ...]) -> float:
    return float(sum(table[slot, count - 1] for slot, count in enumerate(counts)))


def planned_seconds(scenario: Scenario, counts: Sequence[int]) -> float:
    """Return the GPU-seconds of a plan, cold starts and drains included."""
    moves = [after - before for before, after in pairwise(counts)]
    started, drained = sum(max(move, 0) for move in moves), sum(max(-move, 0) for move in moves)
    return (
        SLOT_SECONDS * sum(counts) + started * _start_seconds(scenario) + drained * LINGER_SECONDS
    )


def _start_seconds(scenario: Scenario) -> float:
    cold = scenario.cold
    return cold.median_seconds * exp(cold.sigma**2 / 2) + cold.failing_share * cold.failing_seconds


def _plan(scenario: Scenario, table: Table, price: float) -> tuple[int, ...]:
    """Return the counts that minimize GPU-seconds + price * misses, one slot after another."""
    limit, start = table.shape[1], _start_seconds(scenario)
    counts = np.arange(1, limit + 1)
    moves = counts[:, None] - counts[None, :]  # from column to row
    moving = np.where(moves > 0, moves * start, -moves * LINGER_SECONDS)
    costs = SLOT_SECONDS * counts + price * table
    best, came = np.zeros(limit), []
    for slot in range(len(table)):
        ways = best[None, :] + (moving if slot else np.zeros_like(moving))
        came.append(ways.argmin(axis=1))
        best = ways.min(axis=1) + costs[slot]
    path = [int(best.argmin())]
    for back in reversed(came[1:]):
        path.append(int(back[path[-1]]))
    return tuple(int(counts[index]) for index in reversed(path))


HOUR = 3600.0


def fluid_gpu_hours(scenario: Scenario, requests: int) -> float:
    """Return the GPU-hours that the share of `requests` that must be on time takes if every batch is full and no replica ever waits."""
    service, top = scenario.service, scenario.settings.size_max
    if scenario.generation is not None:
        lengths = np.array(list(scenario.generation.lengths.values()))
        work = scenario.generation.steps.work(lengths, top)
        return scenario.target * requests * float(work.mean()) / HOUR
    least = min(service.seconds(rows) / rows for rows in range(1, top + 1))
    return scenario.target * requests * least / HOUR
