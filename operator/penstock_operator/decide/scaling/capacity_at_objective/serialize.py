"""What of the second law's memory is worth keeping through a restart, as bounded plain data and back. Pure.

Kept: how long starts take, what the forecaster learnt, the price of late requests, the shape of the traffic, and the service curve of
the revision that serves. Not kept: windows (they fill in 20 s), holds (they begin anew: down only after a whole
one) and whatever came after this version. Whoever may write ConfigMaps in the pool's namespace may write this too: every
number is judged again, and the bounds on replicas hold whatever it says.

What was learnt of steps and answers, as bounded plain data and back: a part of the law's checkpoint. Pure.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    PodCurve,
    add,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import (
    MAX_SECONDS,
    MAX_STARTS,
    MIN_SECONDS,
    Startup,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    PodSteps,
    StepCurves,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    NO_ANSWERS,
    AnswerSums,
    StepSums,
    add_answers,
    add_steps,
    parse_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    INITIAL_LEVEL,
    MAX_LEVEL,
    MIN_LEVEL,
    Forecaster,
)
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
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple
from penstock_operator.observed import is_measured, measured

MAX_CHECKPOINT_AGE_SECONDS = 6 * 3600.0
"""Older memory is of another time."""
LEVEL_SECONDS = 600.0
"""Demand itself is believed for so long; what was learnt about it for longer."""
MAX_SAVED_ERRORS = 60
MAX_SHAPE = 100.0
Data = Mapping[str, Any]


def to_checkpoint(state: CapacityState) -> dict[str, Any]:
    """Return the state as JSON knows it, at most about 2 KiB; nothing where nothing was learnt yet."""
    seen = state.forecaster
    revision, curve = _main_curve(state.curves)
    known = curve is not None or bool(state.step_curves.pods)
    if seen.time is None and not known and not state.startup.finished:
        return {}
    misses = seen.errors.latest
    step = max(len(misses) // MAX_SAVED_ERRORS, 1)
    data: dict[str, Any] = {
        "starts": [round(one, 1) for one in state.startup.finished],
        "level": _short(seen.level),
        "trend": _short(seen.trend),
        "mean": _short(seen.mean),
        "departed": _short(seen.departed),
        "stayed": _short(seen.stayed),
        "judgements": _short(seen.judgements),
        "noise": None if seen.noise is None else _short(seen.noise),
        "misses": [[_short(one.expected), _short(one.by)] for one in misses[::step]],
        "judged": len(misses),
        "quantileLevel": round(seen.quantile_level, 4),
        "price": round(state.lateness.lateness_price, 2),
        "imbalance": _short(state.imbalance),
        "dispersion": _short(state.dispersion),
        "unevenness": _short(state.unevenness),
    }
    if curve is not None:
        data |= {"revision": revision, "largestRows": _short(curve.largest)}
        data["curve"] = {name: _short(getattr(curve.data, name)) for name in SUMS}
    return data | steps_to_checkpoint(state.step_curves)


def from_checkpoint(
    initial: CapacityState, data: Data, written: float, now: float
) -> CapacityState:
    """Return `initial` with what `data`, saved at `written` (Unix seconds), teaches; all or parts of it may be unusable."""
    if not 0 <= now - written <= MAX_CHECKPOINT_AGE_SECONDS:
        return initial
    price = _number(data.get("price"), MIN_PRICE, MAX_PRICE)
    return replace(
        initial,
        startup=Startup(
            finished=tuple(_numbers(data.get("starts"), MIN_SECONDS, MAX_SECONDS)[-MAX_STARTS:])
        ),
        forecaster=_forecaster(data, written, now),
        lateness=Lateness(lateness_price=INITIAL_PRICE if price is None else price),
        curves=_curves(data, written),
        step_curves=steps_from_checkpoint(data, written),
        imbalance=_shape(data.get("imbalance"), 1.0),
        dispersion=_shape(data.get("dispersion"), 1.0),
        unevenness=_shape(data.get("unevenness"), 0.0),
        measured=now,
    )


def _main_curve(curves: BatchCurves) -> tuple[str | None, PodCurve | None]:
    """Return what is known of the revision that most pods run, added up."""
    revision, pods = curves.of_main_revision()
    if not pods:
        return None, None
    whole = replace(pods[0], data=add(one.data for one in pods))
    return revision, replace(whole, largest=max(one.largest for one in pods))


def _forecaster(data: Data, written: float, now: float) -> Forecaster:
    quantile = _number(data.get("quantileLevel"), MIN_LEVEL, MAX_LEVEL)
    learnt = Forecaster(
        errors=ForecastErrors.of(_misses(data.get("misses"))),
        quantile_level=INITIAL_LEVEL if quantile is None else quantile,
    )
    level = measured(_number(data.get("level"), 0.0, 1e12))
    if level is None or now - written > LEVEL_SECONDS:
        return learnt
    mean = _number(data.get("mean"), 0.0, 1e12)
    return replace(
        _returning(learnt, data),
        time=written,
        begun=written - LEVEL_SECONDS,
        level=level,
        mean=level if mean is None else mean,
        trend=_number(data.get("trend"), -level, level) or 0.0,
        noise=_number(data.get("noise"), 0.0, 1e15),
    )


def _misses(values: Any) -> list[ForecastError]:
    """Return the pairs of numbers among what may be anything."""
    listed = values[-MAX_ERRORS:] if isinstance(values, list) else []
    pairs = [_numbers(one, -1e12, 1e12) for one in listed]
    return [ForecastError(*pair) for pair in pairs if len(pair) == 2]


def _returning(learnt: Forecaster, data: Data) -> Forecaster:
    """Add how much of a departure from the mean was seen to stay; its three sums tell nothing one without the others."""
    departed = _number(data.get("departed"), 0.0, 1e27)
    stayed = _number(data.get("stayed"), -1e27, 1e27)
    judgements = _number(data.get("judgements"), 0.0, MAX_ERRORS)
    if departed is None or stayed is None or judgements is None:
        return learnt
    return replace(learnt, departed=departed, stayed=stayed, judgements=judgements)


def _curves(data: Data, written: float) -> BatchCurves:
    """Return the curve as that of a pod that is gone: it counts while pods of its revision live."""
    revision, sums = data.get("revision"), data.get("curve")
    largest = _number(data.get("largestRows"), 0.0, 1e6)
    if not isinstance(revision, str | None) or not isinstance(sums, Mapping) or largest is None:
        return BatchCurves()
    known = {name: _number(sums.get(name), 0.0, 1e15) for name in SUMS}
    if any(one is None for one in known.values()) or not known["batches"]:
        return BatchCurves()
    whole = CurveSumsTuple(0, *(known[name] or 0.0 for name in SUMS))
    past = PodCurve(revision, CurveSumsTuple(), written, CurveSumsTuple(), whole, largest)
    return BatchCurves(gone={revision: past})


def _shape(value: Any, least: float) -> float:
    found = _number(value, least, MAX_SHAPE)
    return least if found is None else found


def _numbers(values: Any, least: float, most: float) -> list[float]:
    listed = values[:MAX_ERRORS] if isinstance(values, list) else []
    return [one for value in listed if (one := _number(value, least, most)) is not None]


def _number(value: Any, least: float, most: float) -> float | None:
    """Return a number inside its range; None for anything else, NaN too."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable and least <= value <= most else None


def _short(value: float) -> float:
    """Return four significant digits."""
    return float(f"{value:.4g}")


MAX_STEP_ROWS = 1e6
SUM_DIGITS = 10
"""Of sums: their differences matter, which four would lose."""


def steps_to_checkpoint(learnt: StepCurves) -> dict[str, Any]:
    """Return what is known of the revision that most pods run; nothing where no pod generates."""
    revision, pods = learnt.of_main_revision()
    if not pods:
        return {}
    return {
        "stepsRevision": revision,
        "steps": _rounded_sums(add_steps((one.known, 1.0) for one in pods)),
        "answers": _rounded_sums(add_answers((one.answers, 1.0) for one in pods)),
        "mostRows": round(max(one.largest for one in pods), 1),
    }


def steps_from_checkpoint(data: Mapping[str, Any], written: float) -> StepCurves:
    """Return it as that of a pod that is gone: it counts while pods of its revision live. Anything may be in `data`."""
    revision, steps = (
        data.get("stepsRevision"),
        _measurements(data.get("steps"), len(StepSums._fields)),
    )
    answers = _measurements(data.get("answers"), len(NO_ANSWERS))
    largest = _measurements([data.get("mostRows")], 1)
    sums = parse_steps(steps)
    if not isinstance(revision, str | None) or sums is None or not answers or not largest:
        return StepCurves()
    past = PodSteps(
        revision=revision,
        epoch=0,
        last=StepSums(),
        ended=0.0,
        time=written,
        prior=StepSums(),
        data=sums,
        answers=AnswerSums(*answers),
        largest=min(largest[0], MAX_STEP_ROWS),
    )
    return StepCurves(gone={revision: past})


def _rounded_sums(values: tuple[float, ...]) -> list[float]:
    return [float(f"{one:.{SUM_DIGITS}g}") for one in values]


def _measurements(values: Any, count: int) -> tuple[float, ...] | None:
    """Return so many numbers that are measurements; None for anything else, NaN too."""
    if not isinstance(values, list) or len(values) != count:
        return None
    sound = all(
        isinstance(one, int | float) and not isinstance(one, bool) and is_measured(one)
        for one in values
    )
    return tuple(map(float, values)) if sound else None
