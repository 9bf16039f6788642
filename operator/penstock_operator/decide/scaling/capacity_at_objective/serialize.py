"""The checkpoint of CapacityAtObjective as bounded JSON data. Pure.

Stored: start-up times, the forecaster's parameters, the price of late requests, the shape of the traffic, and the service
curves of the serving revision. Not stored: windows (full after 20 s) and holds (they restart: down only after a whole
one). Everyone with write access to ConfigMaps in the pool's namespace can edit it, so that every number has a range, and the
bounds on replicas apply whatever it contains.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from penstock_operator.decide.scaling.capacity_at_objective.capacity import startup, step_sums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    PodCurve,
    add_sums,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    PodSteps,
    StepCurves,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import Forecaster
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    MAX_ERRORS,
    ForecastError,
    ForecastErrors,
)
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    MAX_PRICE,
    MIN_PRICE,
    Lateness,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import RequestSpread
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple, sums_of
from penstock_operator.measured import MEASURED_MAX

TRAFFIC_SECONDS = 6 * 3600.0
"""Maximum age of forecast errors and of the shape of the traffic. Start-up times, curves and the price of lateness do not age."""
LEVEL_SECONDS = 600.0
"""Maximum age of the stored demand."""
MAX_AHEAD_SECONDS = 600.0
"""Time by which a checkpoint may be ahead of the clock, which another leader's was or which stepped back; its age is then 0."""
MAX_SAVED_ERRORS = 60
MAX_SHAPE = 100.0
DIGITS, SUM_DIGITS = 4, 10
"""Significant digits of a number, and of a sum of steps, whose differences matter."""

Seconds = Annotated[float, Meta(ge=startup.MIN_SECONDS, le=startup.MAX_SECONDS)]
Amount = Annotated[float, Meta(ge=0, le=MEASURED_MAX)]
Sum = Annotated[float, Meta(ge=0, le=1e36)]
Change = Annotated[float, Meta(ge=-1e36, le=1e36)]


class Traffic(Struct, rename="camel"):
    """What a checkpoint stores of starts, demand and lateness."""

    starts: Annotated[list[Seconds], Meta(max_length=startup.MAX_STARTS)] = []
    level: Amount | None = None
    mean: Amount | None = None
    trend: Change = 0.0
    departed: Sum = 0.0
    stayed: Change = 0.0
    judgements: Amount = 0.0
    noise: Sum | None = None
    misses: Annotated[list[tuple[Change, Change]], Meta(max_length=MAX_ERRORS)] = []
    """(expected, by) of forecast errors."""
    judged: int = 0
    """Number of forecast errors, of which `misses` is a part."""
    price: Amount = INITIAL_PRICE
    imbalance: Amount = 1.0
    dispersion: Amount = 1.0
    unevenness: Amount = 0.0
    spread: RequestSpread = RequestSpread.BY_CONNECTION
    """How requests were spread, on which price and unevenness depend."""


class Batches(Struct, rename="camel"):
    """What it stores of the batches of the revision of most pods."""

    revision: str | None = None
    largest_rows: Amount = 0.0
    curve: dict[str, Sum] = {}
    curve_by_size: list[Sum] = []


class Steps(Struct, rename="camel"):
    """What it stores of the steps of the revision of most pods that generate text."""

    steps_revision: str | None = None
    most_rows: Amount = 0.0
    steps: list[Sum] = []
    answers: list[Sum] = []


Fields = TypeVar("Fields", bound=Struct)


def to_checkpoint(state: CapacityState) -> dict[str, Any]:
    """Return the state as JSON data, at most about 2 KiB; empty if nothing has been learned yet."""
    revision, curves = state.curves.of_main_revision()
    steps_revision, pods = state.step_curves.of_main_revision()
    if state.forecaster.time is None and not curves and not pods and not state.startup.finished:
        return {}
    data: dict[str, Any] = to_builtins(_traffic(state))
    if curves:
        sums = add_sums(curve.data for curve in curves)
        largest = _short(max(curve.largest for curve in curves))
        curve = {name: _short(getattr(sums, name)) for name in SUMS}
        by_size = [_short(value) for value in sums.by_size]
        data |= to_builtins(Batches(revision, largest, curve, by_size))
    if pods:
        most = round(max(pod.largest for pod in pods), 1)
        known = step_sums.add_steps((pod.known, 1.0) for pod in pods)
        answers = step_sums.add_answers((pod.answers, 1.0) for pod in pods)
        rounded = ([_short(value, SUM_DIGITS) for value in sums] for sums in (known, answers))
        data |= to_builtins(Steps(steps_revision, most, *rounded))
    return data


def demand_traffic(forecaster: Forecaster, lateness: Lateness) -> Traffic:
    """Return what a checkpoint stores of a forecaster and of lateness."""
    errors = forecaster.errors.latest
    step = max(len(errors) // MAX_SAVED_ERRORS, 1)
    known = forecaster.time is not None
    return Traffic(
        level=_short(min(forecaster.level, MEASURED_MAX)) if known else None,
        mean=_short(min(forecaster.mean, MEASURED_MAX)) if known else None,
        trend=_short(forecaster.trend),
        departed=_short(forecaster.departed),
        stayed=_short(forecaster.stayed),
        judgements=_short(forecaster.judgements),
        noise=None if forecaster.noise is None else _short(forecaster.noise),
        misses=[(_short(error.expected), _short(error.by)) for error in errors[::step]],
        judged=len(errors),
        price=round(lateness.lateness_price, 2),
    )


def _traffic(state: CapacityState) -> Traffic:
    traffic = demand_traffic(state.forecaster, state.lateness)
    traffic.starts = [round(seconds, 1) for seconds in state.startup.finished]
    traffic.imbalance = _short(state.imbalance)
    traffic.dispersion = _short(state.dispersion)
    traffic.unevenness = _short(state.unevenness)
    traffic.spread = state.spread
    return traffic


def _short(value: float, digits: int = DIGITS) -> float:
    """Round to so many significant digits."""
    return float(f"{value:.{digits}g}")


def from_checkpoint(
    initial: CapacityState, data: Mapping[str, Any], written: float, now: float
) -> CapacityState:
    """Return `initial` with what `data` stores since `written` (Unix seconds) and is not too old."""
    traffic = stored_traffic(data, written, now)
    return initial._replace(
        startup=startup.Startup(finished=tuple(traffic.starts)),
        forecaster=stored_forecaster(traffic, written, now),
        lateness=stored_lateness(traffic),
        spread=traffic.spread,
        curves=_batch_curves(_valid(Batches, data), written),
        step_curves=_step_curves(_valid(Steps, data), written),
        imbalance=min(max(traffic.imbalance, 1.0), MAX_SHAPE),
        dispersion=min(max(traffic.dispersion, 1.0), MAX_SHAPE),
        unevenness=min(traffic.unevenness, MAX_SHAPE),
        measured=now if is_recent(written, now) else None,
    )


def is_recent(written: float, now: float) -> bool:
    """Return whether a checkpoint's errors and shape of the traffic may be used."""
    return -MAX_AHEAD_SECONDS <= now - written <= TRAFFIC_SECONDS


def stored_traffic(data: Mapping[str, Any], written: float, now: float) -> Traffic:
    """Return the traffic that a checkpoint stores since `written` (Unix seconds), without what is too old."""
    stored = _valid(Traffic, data)
    if is_recent(written, now):
        return stored
    return Traffic(starts=stored.starts, price=stored.price, spread=stored.spread)


def stored_lateness(stored: Traffic) -> Lateness:
    """Return the stored price of lateness, without counts."""
    return Lateness(min(max(stored.price, MIN_PRICE), MAX_PRICE))


def _valid(kind: type[Fields], data: Mapping[str, Any]) -> Fields:
    """Return these fields of the data; their initial values if any is out of its range."""
    try:
        return convert(data, kind)
    except ValidationError:
        return kind()


def stored_forecaster(stored: Traffic, written: float, now: float) -> Forecaster:
    """Return the stored forecaster; only its errors if the demand is too old."""
    written = min(written, now)
    errors = ForecastErrors.of(ForecastError(*pair) for pair in stored.misses)
    level = stored.level
    if level is None or now - written > LEVEL_SECONDS:
        return Forecaster(errors=errors)
    return Forecaster(
        time=written,
        begun=written - LEVEL_SECONDS,
        level=level,
        mean=level if stored.mean is None else stored.mean,
        trend=min(max(stored.trend, -level), level),
        noise=stored.noise,
        departed=stored.departed,
        stayed=stored.stayed,
        judgements=stored.judgements,
        errors=errors,
    )


def _batch_curves(stored: Batches, written: float) -> BatchCurves:
    """Return the curve as that of a deleted pod, which counts while pods of its revision live."""
    if stored.curve.keys() != set(SUMS) or not stored.curve["batches"]:
        return BatchCurves()
    data = sums_of((stored.curve[name] for name in SUMS), tuple(stored.curve_by_size))
    empty = CurveSumsTuple()
    known = PodCurve(stored.revision, empty, written, empty, data, stored.largest_rows)
    return BatchCurves(gone={known.revision: known})


def _step_curves(stored: Steps, written: float) -> StepCurves:
    """Return the steps as those of a deleted pod, as the curve."""
    steps, answers = (
        step_sums.parse_steps(stored.steps),
        step_sums.parse_answers(stored.answers),
    )
    if steps is None or answers is None:
        return StepCurves()
    known = PodSteps(
        revision=stored.steps_revision,
        epoch=0,
        last=step_sums.NO_STEPS,
        ended=0.0,
        time=written,
        prior=step_sums.NO_STEPS,
        data=steps,
        answers=answers,
        largest=stored.most_rows,
    )
    return StepCurves(gone={known.revision: known})
