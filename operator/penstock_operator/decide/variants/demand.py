"""`pooled_demand`: the demand of all variants together, and the capacity that serves it within the objective. Pure.

One forecast, one distribution of its errors and one price of lateness for the whole pool, by the parts of CapacityAtObjective.
The unit is rows a second that replicas serve within the objective at the law's largest utilization. What suffices depends on
the variant that serves, since small and slow batches leave less time for waiting; so each variant has a need of its own, as
if it served alone.

A gateway sends a request to the pod with the fewest requests for its weight, so that the pods share one queue in effect: the
share of late requests is that of one server whose batch is as large as those of all pods. Its demand changes between two
scrapes as much as the pool's arrivals did, and within a batch, which is shorter, by a part of that. Without a gateway, each
pod has a queue of its own and pods are unequally busy.
"""

from collections.abc import Mapping
from math import exp, sqrt
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import (
    max_wait_seconds,
    spare_seconds,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    DemandSample,
    Forecaster,
    Outlook,
)
from penstock_operator.decide.scaling.capacity_at_objective.latency import predict
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    LateShares,
    TrafficShape,
)
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    Demands,
    Lateness,
    cheapest_count,
    late_seconds,
    reprice,
    strictness,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.variants import BatchShape, VariantLoad

TICK_SECONDS = 5.0
INITIAL_POOLED_PRICE = 20.0
"""Initial price of lateness where pods share one queue: lateness then ends within little more capacity, so that a lower price
than the law's attains the objective. Late requests raise it as far as the law's."""
DISPERSION_SECONDS = 600.0
"""Smoothing time of the dispersion of the pool's arrivals, which is estimated from differences of few scrapes."""

BATCH_PART = 0.15
"""Dispersion of the arrivals of a batch, relative to that between two scrapes, where pods share one queue."""
DEVIATIONS = ((0.3, -1.27), (0.4, 0.0), (0.22, 1.0), (0.08, 2.0))
"""(probability, standard deviations) of the demand between two scrapes: mean 0, variance 1."""
REACH = 4.0
"""Units beyond the least capacity that the search tries; so chosen that it reaches twice the largest likely demand."""


class PooledState(NamedTuple):
    """State of the demand of a pool with variants."""

    forecaster: Forecaster = Forecaster()
    lateness: Lateness = Lateness(INITIAL_POOLED_PRICE)
    counted: Mapping[str, tuple[float, float]] = MappingProxyType({})
    """(requests settled, those on time) by variant, as counted last."""
    measured: float | None = None
    """Time of the newest measurement."""
    dispersion: float | None = None
    """Variance over mean of the pool's arrivals between two scrapes, in rows, smoothed."""
    routed: bool | None = None
    """How requests were sent at the last tick: the price depends on it."""


class PoolLoad(NamedTuple):
    """The loads of all variants together."""

    recent: float
    newest: float
    overlapping: bool
    backlog_seconds: float
    """Time of the Ready pods for the rows that wait beyond their next batches."""
    dispersion: float
    unevenness: float
    imbalance: float
    guarded: float


class PooledDemand(NamedTuple):
    """The demand of a pool, in rows a second."""

    expected: float
    """Forecast for the time when a replica requested now is Ready."""
    needs: Mapping[str, float]
    """Capacity at the objective that suffices if only this variant serves, headroom included."""


class PoolTerms(NamedTuple):
    """What the demand is judged by, besides the loads."""

    settings: LawSettings
    startup_seconds: float
    routed: bool
    """Whether a gateway sends each request to the pod with the fewest requests for its weight."""
    free: bool
    """Whether more replicas were available, so that a late request counts in the price of lateness."""


def pooled_demand(
    state: PooledState,
    loads: Mapping[str, VariantLoad],
    shapes: Mapping[str, BatchShape | None],
    terms: PoolTerms,
    now: float,
) -> tuple[PooledState, PooledDemand]:
    """Return the next state and the demand; `shapes` has every variant that may serve."""
    state, load = _spread(state, routed=terms.routed), _together(loads)
    horizon = terms.startup_seconds + TICK_SECONDS
    newest = max((each.time for each in loads.values()), default=None)
    if newest is not None and newest != state.measured:
        sample = DemandSample(load.recent, load.newest, load.overlapping)
        forecaster, ahead = forecast.advance(state.forecaster, sample, horizon, now)
        lateness = _priced(state, loads, terms, now)
        counted = {
            **state.counted,
            **{name: (each.settled, each.on_time) for name, each in loads.items()},
        }
        state = PooledState(
            forecaster, lateness, counted, newest, _dispersion(state, forecaster), terms.routed
        )
    else:
        ahead = forecast.outlook(state.forecaster, horizon)
    least = max(load.guarded, _panic(load, terms))
    needs = {
        name: max(UTILIZATION * _capacity(state, load, ahead, shape, terms), least)
        for name, shape in shapes.items()
    }
    return state, PooledDemand(ahead.expected, needs)


def _spread(state: PooledState, *, routed: bool) -> PooledState:
    """Return the state for a way to spread requests; a price that was learned with another one does not apply."""
    if state.routed is routed:
        return state
    lateness = state.lateness._replace(lateness_price=_first_price(routed=routed))
    return state._replace(routed=routed, lateness=lateness)


def _first_price(*, routed: bool) -> float:
    return INITIAL_POOLED_PRICE if routed else INITIAL_PRICE


def _together(loads: Mapping[str, VariantLoad]) -> PoolLoad:
    each = loads.values()
    serving, recent = sum(load.serving for load in each), sum(load.recent for load in each)
    excess = sum(load.excess for load in each)

    def mean(values: Mapping[str, float]) -> float:
        """Return the mean by rows received."""
        return sum(loads[name].recent * value for name, value in values.items()) / recent

    idle = recent <= 0
    return PoolLoad(
        recent=recent,
        newest=sum(load.newest for load in each),
        overlapping=len(loads) > 1 or any(load.overlapping for load in each),
        backlog_seconds=excess / serving if serving > 0 else 0.0,
        dispersion=1.0 if idle else mean({name: load.dispersion for name, load in loads.items()}),
        unevenness=0.0 if idle else mean({name: load.unevenness for name, load in loads.items()}),
        imbalance=1.0 if idle else mean({name: load.imbalance for name, load in loads.items()}),
        guarded=sum(load.guarded for load in each),
    )


def _panic(load: PoolLoad, terms: PoolTerms) -> float:
    """Return the need by the last scrape, if the backlog exceeds the capacity of half the objective."""
    spare = max_wait_seconds(terms.settings, None)
    if spare is None or load.backlog_seconds <= spare / 2:
        return 0.0
    return max(load.newest, load.recent)


def _capacity(
    state: PooledState,
    load: PoolLoad,
    ahead: Outlook,
    shape: BatchShape | None,
    terms: PoolTerms,
) -> float:
    """Return the capacity in full batches, in rows a second, that is cheapest with the price of lateness."""
    spare = spare_seconds(terms.settings)
    if shape is None or spare is None or ahead.expected <= 0:
        return load.imbalance * ahead.upper / UTILIZATION
    limit = spare / (shape.seconds * shape.tail_ratio)
    pooled = state.dispersion or 1.0
    demands, least = forecast.likely_demands(ahead), ahead.expected / UTILIZATION
    if terms.routed:
        seconds = forecast.scrape_seconds(state.forecaster) or TICK_SECONDS
        demands = fluctuating(demands, pooled, seconds)

    def late(capacity: float) -> LateShares:
        rows = max(capacity * shape.seconds, float(shape.cap))
        if terms.routed:
            each = max(BATCH_PART * pooled, 1.0) / rows
            traffic = TrafficShape(shape.intercept, each, 0.0)
        else:
            pods = rows / shape.cap
            each = load.dispersion / shape.cap
            traffic = TrafficShape(shape.intercept, each, load.unevenness * pods)
        return predict.late_share(traffic, limit)

    price = state.lateness.lateness_price * strictness(terms.settings.late.request)
    unit = max(least, 2 * max(demand for _, demand in demands) / REACH)
    scaled = [(chance, demand / unit) for chance, demand in demands]
    return unit * cheapest_count(scaled, least / unit, price, lambda count: late(unit * count))


def fluctuating(demands: Demands, dispersion: float, seconds: float) -> list[tuple[float, float]]:
    """Return the distribution of the demand of one tick, in rows a second, from that of the mean demand.

    `dispersion` is the variance over the mean of the rows that arrive in `seconds`, at least a tick. A part of 1 is chance,
    which is independent from tick to tick; the rest is bursts that last as long.
    """
    ratio = (dispersion - 1) / max(seconds, TICK_SECONDS) + 1 / TICK_SECONDS
    return [
        (chance * share, max(demand + by * sqrt(ratio * demand), 0.0))
        for chance, demand in demands
        for share, by in DEVIATIONS
    ]


def _dispersion(before: PooledState, after: Forecaster) -> float | None:
    """Return the smoothed dispersion, at least 1; at first the mean of all. What a pause shows weighs little."""
    newer, earlier = after.newer, before.dispersion
    if after.noise is None or after.level <= 0 or after.time is None or before.measured is None:
        return earlier
    present = forecast.pool_dispersion(after)
    if earlier is None:
        return present
    passed, age = newer[-1][0] - newer[-2][0], after.time - (after.begun or after.time)
    if passed <= 0:
        return earlier
    share = max(1 - exp(-passed / DISPERSION_SECONDS), passed / max(age, passed))
    weight = min(after.level / after.mean, 1.0) if after.mean > 0 else 1.0
    return earlier + share * weight * (present - earlier)


def _priced(
    state: PooledState, loads: Mapping[str, VariantLoad], terms: PoolTerms, now: float
) -> Lateness:
    """Return the lateness with its price changed by the requests that were late since the last measurement."""
    before, late_share = state.lateness, terms.settings.late.request
    if terms.settings.objective_milliseconds is None:
        return Lateness(_first_price(routed=terms.routed), time=now)
    if before.time is None:
        return before._replace(time=now)
    known = {name: state.counted[name] for name in loads if name in state.counted}
    total = sum(max(loads[name].settled - settled, 0.0) for name, (settled, _) in known.items())
    good = sum(max(loads[name].on_time - on_time, 0.0) for name, (_, on_time) in known.items())
    if now <= before.time or total <= 0:
        return before
    after, beyond = late_seconds(before, max(total - good, 0.0), total, late_share, now)
    begun = state.forecaster.begun
    if not terms.free or begun is None or now - begun <= terms.startup_seconds:
        return after
    return reprice(after, beyond)
