"""The checkpoint of CapacityAtObjective as bounded JSON data: serialization and validation. Pure.

Stored: start-up times, the forecaster's parameters, the price of late requests, the shape of the traffic, and the service
curves of the serving revision. Not stored: windows (full after 20 s) and holds (they restart: down only after a whole
one). Everyone with write access to ConfigMaps in the pool's namespace can edit it, so that every number is validated, and the
bounds on replicas apply whatever it contains.
"""

from collections.abc import Mapping
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    PodCurve,
    add_sums,
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
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple, sums_of
from penstock_operator.observed import is_measured, measured

MAX_CHECKPOINT_AGE_SECONDS = 6 * 3600.0
"""Maximum age of a usable checkpoint."""
LEVEL_SECONDS = 600.0
"""Maximum age of the stored demand; the other parameters are valid for longer."""
MAX_SAVED_ERRORS = 60
MAX_SHAPE = 100.0
Data = Mapping[str, Any]


def to_checkpoint(state: CapacityState) -> dict[str, Any]:
    """Return the state as JSON data, at most about 2 KiB; empty if nothing has been learned yet."""
    forecaster = state.forecaster
    revision, curve = _main_curve(state.curves)
    known = curve is not None or bool(state.step_curves.pods)
    if forecaster.time is None and not known and not state.startup.finished:
        return {}
    errors = forecaster.errors.latest
    step = max(len(errors) // MAX_SAVED_ERRORS, 1)
    data: dict[str, Any] = {
        "starts": [round(seconds, 1) for seconds in state.startup.finished],
        "level": _short(forecaster.level),
        "trend": _short(forecaster.trend),
        "mean": _short(forecaster.mean),
        "departed": _short(forecaster.departed),
        "stayed": _short(forecaster.stayed),
        "judgements": _short(forecaster.judgements),
        "noise": None if forecaster.noise is None else _short(forecaster.noise),
        "misses": [[_short(error.expected), _short(error.by)] for error in errors[::step]],
        "judged": len(errors),
        "price": round(state.lateness.lateness_price, 2),
        "imbalance": _short(state.imbalance),
        "dispersion": _short(state.dispersion),
        "unevenness": _short(state.unevenness),
    }
    if curve is not None:
        data |= {"revision": revision, "largestRows": _short(curve.largest)}
        data["curve"] = {name: _short(getattr(curve.data, name)) for name in SUMS}
        data["curveBySize"] = [_short(value) for value in curve.data.by_size]
    return data | steps_to_checkpoint(state.step_curves)


def from_checkpoint(
    initial: CapacityState, data: Data, written: float, now: float
) -> CapacityState:
    """Return `initial` with the valid parts of `data`, which was stored at `written` (Unix seconds)."""
    if not 0 <= now - written <= MAX_CHECKPOINT_AGE_SECONDS:
        return initial
    price = _number(data.get("price"), MIN_PRICE, MAX_PRICE)
    return initial._replace(
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
    """Return the revision of most pods and its curve, summed over the pods."""
    revision, pods = curves.of_main_revision()
    if not pods:
        return None, None
    whole = pods[0]._replace(data=add_sums(pod.data for pod in pods))
    return revision, whole._replace(largest=max(pod.largest for pod in pods))


def _forecaster(data: Data, written: float, now: float) -> Forecaster:
    forecaster = Forecaster(errors=ForecastErrors.of(_misses(data.get("misses"))))
    level = measured(_number(data.get("level"), 0.0, 1e12))
    if level is None or now - written > LEVEL_SECONDS:
        return forecaster
    mean = _number(data.get("mean"), 0.0, 1e12)
    return _with_persistence(forecaster, data)._replace(
        time=written,
        begun=written - LEVEL_SECONDS,
        level=level,
        mean=level if mean is None else mean,
        trend=_number(data.get("trend"), -level, level) or 0.0,
        noise=_number(data.get("noise"), 0.0, 1e15),
    )


def _misses(values: Any) -> list[ForecastError]:
    """Return the valid pairs of numbers in unvalidated data."""
    listed = values[-MAX_ERRORS:] if isinstance(values, list) else []
    pairs = [_numbers(value, -1e12, 1e12) for value in listed]
    return [ForecastError(*pair) for pair in pairs if len(pair) == 2]


def _with_persistence(forecaster: Forecaster, data: Data) -> Forecaster:
    """Return the forecaster with the three sums of its persistence, which are valid only together."""
    departed = _number(data.get("departed"), 0.0, 1e27)
    stayed = _number(data.get("stayed"), -1e27, 1e27)
    judgements = _number(data.get("judgements"), 0.0, MAX_ERRORS)
    if departed is None or stayed is None or judgements is None:
        return forecaster
    return forecaster._replace(departed=departed, stayed=stayed, judgements=judgements)


def _curves(data: Data, written: float) -> BatchCurves:
    """Return the curve as that of a deleted pod, which counts while pods of its revision live."""
    revision, sums = data.get("revision"), data.get("curve")
    largest = _number(data.get("largestRows"), 0.0, 1e6)
    if not isinstance(revision, str | None) or not isinstance(sums, Mapping) or largest is None:
        return BatchCurves()
    known = {name: _number(sums.get(name), 0.0, 1e15) for name in SUMS}
    if any(value is None for value in known.values()) or not known["batches"]:
        return BatchCurves()
    listed = data.get("curveBySize")
    sizes = tuple(_numbers(listed, 0.0, 1e15))
    by_size = sizes if isinstance(listed, list) and len(sizes) == len(listed) else ()
    whole = sums_of((known[name] or 0.0 for name in SUMS), by_size)
    stored = PodCurve(revision, CurveSumsTuple(), written, CurveSumsTuple(), whole, largest)
    return BatchCurves(gone={revision: stored})


def _shape(value: Any, least: float) -> float:
    number = _number(value, least, MAX_SHAPE)
    return least if number is None else number


def _numbers(values: Any, least: float, most: float) -> list[float]:
    listed = values[:MAX_ERRORS] if isinstance(values, list) else []
    return [number for value in listed if (number := _number(value, least, most)) is not None]


def _number(value: Any, least: float, most: float) -> float | None:
    """Return a number within its range; None for anything else, including NaN."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable and least <= value <= most else None


def _short(value: float) -> float:
    """Round to four significant digits."""
    return float(f"{value:.4g}")


MAX_STEP_ROWS = 1e6
SUM_DIGITS = 10
"""Significant digits of sums, whose differences matter."""


def steps_to_checkpoint(step_curves: StepCurves) -> dict[str, Any]:
    """Return the step sums of the revision of most pods; empty if no pod generates text."""
    revision, pods = step_curves.of_main_revision()
    if not pods:
        return {}
    return {
        "stepsRevision": revision,
        "steps": _rounded_sums(add_steps((pod.known, 1.0) for pod in pods)),
        "answers": _rounded_sums(add_answers((pod.answers, 1.0) for pod in pods)),
        "mostRows": round(max(pod.largest for pod in pods), 1),
    }


def steps_from_checkpoint(data: Mapping[str, Any], written: float) -> StepCurves:
    """Return the step sums as those of a deleted pod, which count while pods of its revision live; `data` is validated."""
    revision, steps = (
        data.get("stepsRevision"),
        _measurements(data.get("steps"), len(StepSums._fields)),
    )
    answers = _measurements(data.get("answers"), len(NO_ANSWERS))
    largest = _measurements([data.get("mostRows")], 1)
    sums = parse_steps(steps)
    if not isinstance(revision, str | None) or sums is None or not answers or not largest:
        return StepCurves()
    stored = PodSteps(
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
    return StepCurves(gone={revision: stored})


def _rounded_sums(values: tuple[float, ...]) -> list[float]:
    return [float(f"{value:.{SUM_DIGITS}g}") for value in values]


def _measurements(values: Any, count: int) -> tuple[float, ...] | None:
    """Return `count` measurements; None for anything else, including NaN."""
    if not isinstance(values, list) or len(values) != count:
        return None
    sound = all(
        isinstance(value, int | float) and not isinstance(value, bool) and is_measured(value)
        for value in values
    )
    return tuple(map(float, values)) if sound else None
