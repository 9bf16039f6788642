"""The cheapest schedule we can find when the whole trace is known beforehand. Pure.

1. A table: misses per slot of time at every fixed count of a grid, each from a run of the world itself. Clients of these runs
   give up soon, so that a slot's misses are its own and not an earlier backlog's.
2. Dynamic programming over slots: replica-seconds, a cold start for each replica added, and a price on each miss; the
   price is bisected until the misses allowed are just used.
3. Verification: the schedule runs in the world with foresight (replicas Ready when the plan says, billed from their cold start
   before), and so does the same with every replica a slot earlier, where connections must find it first. The misses allowed in
   step 2 are bisected until the verified run just attains; what a run missed above the table is written into it.
4. Repair: in the first and the last round, slots with most misses get one replica more until the run attains.

The result is a schedule that exists, so the true bound is at most its cost. The warm-up is served like the rest, though
its misses would not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from penstock_simulator.baselines.fixed import Planned, fixed
from penstock_simulator.outcome import Outcome, completed, outcome
from penstock_simulator.pod import LINGER_SECONDS
from penstock_simulator.routing import Times
from penstock_simulator.scenario import Routing, Scenario
from penstock_simulator.world import Run, simulate

SLOT_SECONDS = 30.0
ATTAINED = 0.99
ROUNDS = 7
SHARES = (0.05, 8.0)
"""Of the misses that may be: the table errs, either way, so more or fewer of its misses are tried."""
REPAIRS = 6
Table = NDArray[np.float64]
"""Misses, by slot and count - 1."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Counts per slot, and what they were verified to do."""

    counts: tuple[int, ...]
    cap: int
    outcome: Outcome


def clairvoyant(
    scenario: Scenario, arrivals: Times, caps: Sequence[int], points: int = 14
) -> Schedule | None:
    """Return the cheapest verified schedule over the caps; None where none attains inside the bounds."""
    best = None
    for cap in caps:
        table = miss_table(scenario, arrivals, cap, points)
        for lead in (0, 1) if scenario.routing is Routing.CONNECTION else (0,):
            found = _search(scenario, arrivals, cap, table.copy(), lead)
            if found is not None and _cheaper(found, best):
                best = found
    return best


def _search(
    scenario: Scenario, arrivals: Times, cap: int, table: Table, lead: int
) -> Schedule | None:
    allowed = (1 - ATTAINED) * float((arrivals >= scenario.warm_up_seconds).sum())
    low, high, best = *SHARES, None
    for index in range(ROUNDS):
        share = 1.0 if index == 0 else sqrt(low * high)
        counts = early(cheapest(scenario, table, share * allowed), lead)
        run = _run(scenario, arrivals, cap, counts)
        tried = Schedule(counts, cap, outcome(run))
        if tried.outcome.attainment < ATTAINED:
            high = share
            learn(table, counts, _misses(run, len(counts)))
            tried = _repaired(scenario, arrivals, tried) if index in {0, ROUNDS - 1} else tried
        else:
            low = share
        if tried.outcome.attainment >= ATTAINED and _cheaper(tried, best):
            best = tried
    return best


def early(counts: tuple[int, ...], lead: int) -> tuple[int, ...]:
    """Return the counts with every replica Ready `lead` slots before: connections find a new pod only as they age."""
    return tuple(max(counts[slot : slot + lead + 1]) for slot in range(len(counts)))


def learn(table: Table, counts: tuple[int, ...], misses: NDArray[np.float64]) -> None:
    """Raise the table where a schedule that did not attain missed more: fewer replicas would miss no less."""
    for slot, count in enumerate(counts):
        table[slot, :count] = np.maximum(table[slot, :count], misses[slot])


def _cheaper(one: Schedule, other: Schedule | None) -> bool:
    return other is None or one.outcome.gpu_hours < other.outcome.gpu_hours


def _run(scenario: Scenario, arrivals: Times, cap: int, counts: tuple[int, ...]) -> Run:
    law = Planned("clairvoyant", counts, SLOT_SECONDS, cap)
    return simulate(replace(scenario, foresight=True), law, arrivals)


def _repaired(scenario: Scenario, arrivals: Times, tried: Schedule) -> Schedule:
    """Give one replica more to the slots that miss most, a tenth of them at a time."""
    counts, top = np.array(tried.counts), scenario.settings.max_replicas
    for _ in range(REPAIRS):
        run = _run(scenario, arrivals, tried.cap, tuple(counts.tolist()))
        tried = Schedule(tuple(counts.tolist()), tried.cap, outcome(run))
        if tried.outcome.attainment >= ATTAINED:
            break
        worst = np.argsort(_misses(run, len(counts)))[-max(1, len(counts) // 10) :]
        counts[worst] = np.minimum(counts[worst] + 1, top)
    return tried


def miss_table(scenario: Scenario, arrivals: Times, cap: int, points: int) -> Table:
    """Return misses per slot for every count up to the maximum; between grid points their logarithm is a line."""
    settings = scenario.settings
    slots = int(arrivals[-1] // SLOT_SECONDS) + 1
    impatient = replace(scenario.clients, timeout_seconds=2 * scenario.objective_seconds)
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


def _misses(run: Run, slots: int) -> NDArray[np.float64]:
    arrived, latency = completed(run)
    good = arrived[latency <= run.scenario.objective_seconds]
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


def _plan(scenario: Scenario, table: Table, price: float) -> tuple[int, ...]:
    """Return the counts that minimise GPU-seconds + price * misses, one slot after another."""
    cold, most = scenario.cold, table.shape[1]
    start = cold.median_seconds * exp(cold.sigma**2 / 2) + cold.failing_share * cold.failing_seconds
    counts = np.arange(1, most + 1)
    moves = counts[:, None] - counts[None, :]  # from column to row
    moving = np.where(moves > 0, moves * start, -moves * LINGER_SECONDS)
    costs = SLOT_SECONDS * counts + price * table
    best, came = np.zeros(most), []
    for slot in range(len(table)):
        ways = best[None, :] + (moving if slot else np.zeros_like(moving))
        came.append(ways.argmin(axis=1))
        best = ways.min(axis=1) + costs[slot]
    found = [int(best.argmin())]
    for back in reversed(came[1:]):
        found.append(int(back[found[-1]]))
    return tuple(int(counts[index]) for index in reversed(found))
