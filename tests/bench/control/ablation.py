"""The law's separable parts, each of which can be taken out of a run (docs/design/control-law.md#ablations)."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective import lateness_price, state
from penstock_operator.decide.scaling.capacity_at_objective.capacity import startup
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import Outlook
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    ForecastErrors,
)
from penstock_operator.decide.scaling.capacity_at_objective.latency.pooled import LateSharesByPods
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.signals.counters import per_second
from tests.bench.control.sensitivity import LAW_PACKAGE, law_modules

NEVER = 1e9
"""Replaces a limit that is not to apply."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the law."""

    target: str
    """Function, method or constant in the law's package that holds the part."""
    without: Any
    """What replaces it."""
    code: tuple[str, ...] = ()
    """Other functions that only this part uses."""
    kept: str = ""
    """What the part protects that the simulator does not show; empty if its figures decide."""

    @property
    def lines(self) -> int:
        """Return the lines of the functions that hold the part, an upper bound of what it costs; 1 for a constant."""
        holders = [_find(name) for name in (self.target, *self.code)]
        return sum(
            len(inspect.getsource(getattr(owner, name)).splitlines())
            if callable(getattr(owner, name))
            else 1
            for owner, name in holders
        )


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _unchanged(first: Any, *_: Any) -> Any:
    return first


_smooth, _p90_seconds = state.smooth, startup.p90_seconds


def _smoothed_but(**fixed: float) -> Callable[..., CapacityState]:
    return lambda *args: _smooth(*args)._replace(**fixed)  # type: ignore[arg-type]


def _all_errors(errors: ForecastErrors, _: float) -> list[float]:
    return sorted(error.by for error in errors.latest)


def _only_expected(ahead: Outlook) -> list[tuple[float, float]]:
    return [(1.0, ahead.expected)]


def _own_errors(errors: ForecastErrors, expected: float, _: float) -> list[float]:
    return errors.near(expected) or [0.0]


def _finished_starts(starts: startup.Startup, _: float) -> float:
    return _p90_seconds(startup.Startup(finished=starts.finished), 0.0)


def _coarse_count(
    demands: lateness_price.Demands,
    minimum: float,
    price: float,
    late: LateSharesByPods,
) -> float:
    step = max(minimum, 1.0) / lateness_price.COARSE
    counts = [minimum + step * place for place in range(lateness_price.MAX_STEPS)]
    return lateness_price._search(demands, price, late, counts)


def _received(window: Any, _: float) -> float | None:
    return per_second(window, "rows_received")


PARTS: Mapping[str, Part] = {
    "trend of the forecast": Part("demand.forecast._drift", _always(0.0)),
    "ramp of the forecast": Part("demand.forecast.ramp", _always((0.0, 0.0))),
    "return to the mean": Part(
        "demand.forecast.persistence", _always(1.0), ("demand.forecast._compared",)
    ),
    "limit of the level's lag": Part("demand.forecast.SURE_SIGMAS", NEVER),
    "outliers of the noise": Part("demand.forecast.ODD", NEVER),
    "errors of similar forecasts": Part(
        "demand.forecast_errors.ForecastErrors.near",
        _all_errors,
        ("demand.forecast_errors.ForecastErrors._lean",),
    ),
    "distribution of demand": Part("demand.forecast.likely_demands", _only_expected),
    "learned price": Part("lateness_price.reprice", _unchanged),
    "prior errors of a forecast": Part("demand.forecast_errors.likely_errors", _own_errors),
    "price only of avoidable misses": Part("law._judged", _always(True)),
    "limit of a tick's lateness": Part(
        "lateness_price.MAX_LATE_SECONDS", NEVER, kept="a stall of all pods"
    ),
    "smoothing of the typical rate": Part("lateness_price.TYPICAL_SECONDS", 1e-6),
    "fine search of the count": Part("lateness_price.cheapest_count", _coarse_count),
    "running starts": Part("capacity.startup.p90_seconds", _finished_starts),
    "unevenness": Part("state.smooth", _smoothed_but(unevenness=0.0)),
    "imbalance": Part("state.smooth", _smoothed_but(imbalance=1.0)),
    "dispersion": Part("state.smooth", _smoothed_but(dispersion=1.0)),
    "smoothing of the three": Part("state.SMOOTHING_SECONDS", 1e-9),
    "back-off of the cap": Part(
        "batch_cap._backed_off", _unchanged, kept="a device slower than its curve"
    ),
    "dead band of the cap": Part(
        "batch_cap.DEAD_BAND", 0.0, kept="a cap that every pod must acknowledge"
    ),
    "dead band of the count": Part("replicas.DEAD_BAND", 0.0),
    "panic": Part("replicas._panic", _always(None), kept="the first token of pools that generate"),
    "hold before scale-down": Part("replicas.hold_seconds", _always(0.0)),
    "measured start-up": Part("capacity.startup.p90_seconds", _always(startup.PRIOR_P90_SECONDS)),
    "odd intervals of a curve": Part(
        "capacity.batch_curves._is_odd", _always(False), kept="a device whose speed changes"
    ),
    "fading of a curve": Part(
        "capacity.batch_curves.HALF_LIFE_SECONDS", NEVER, kept="a device whose speed changes"
    ),
    "bound by admitted rows": Part(
        "demand.load._clamped", _received, kept="clients that retry rejected requests"
    ),
    "curve misfit": Part(
        "capacity.model.off_curve", _always(None), kept="an observation of the status"
    ),
}
"""The parts by name."""


@contextmanager
def ablated(name: str | None) -> Iterator[None]:
    """Take one part out inside the context, in every module that imported it by name."""
    if name is None:
        yield
        return
    part = PARTS[name]
    owner, attribute = _find(part.target)
    before = getattr(owner, attribute)
    holders = [module for module in law_modules() if getattr(module, attribute, None) is before]
    with ExitStack() as undo:
        for holder in holders or [owner]:
            undo.callback(setattr, holder, attribute, before)
            setattr(holder, attribute, part.without)
        yield


def _find(path: str) -> tuple[Any, str]:
    """Return the module or class that holds `path`, and the attribute's name."""
    *modules, attribute = path.split(".")
    owner: Any = None
    if modules[-1][0].isupper():
        owner = getattr(import_module(".".join((LAW_PACKAGE, *modules[:-1]))), modules[-1])
    else:
        owner = import_module(".".join((LAW_PACKAGE, *modules)))
    return owner, attribute
