"""Sensitivity of the cost to the law's defaults, each changed by a quarter up and down."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

LAW_PACKAGE = "penstock_operator.decide.scaling.capacity_at_objective"
FACTORS = (0.75, 1.25)
DEFAULTS = (
    *("batch_cap.SPARE", "batch_cap.DEAD_BAND", "batch_cap.BACK_OFF"),
    *("replicas.UTILIZATION", "replicas.DEAD_BAND"),
    *("replicas.MIN_HOLD_SECONDS", "replicas.HOLD_STARTUPS"),
    *("capacity.batch_curves.HALF_LIFE_SECONDS", "capacity.batch_curves.PRIOR_BATCHES"),
    *(
        "demand.forecast.LEVEL_SECONDS",
        "demand.forecast.TREND_SECONDS",
        "demand.forecast.DAMPING_SECONDS",
    ),
    *(
        "demand.forecast.SURE_SIGMAS",
        "demand.forecast.MAX_TREND",
        "demand.forecast.MEAN_SECONDS",
    ),
    *(
        "demand.forecast.DOUBT",
        "demand.forecast.RAMP_DOUBT",
        "demand.forecast.RAMP_SECONDS",
        "demand.forecast_errors.NEIGHBORS",
    ),
    *("lateness_price.INITIAL_PRICE", "lateness_price.MIN_PRICE"),
    *("lateness_price.ALLOWED_SHARE", "lateness_price.PRICE_STEP", "lateness_price.MAX_PRICE"),
    *("state.SMOOTHING_SECONDS", "capacity.startup.PRIOR_P90_SECONDS"),
)
"""Module in the law's package and name of each default."""
MAX_SHARE = 0.98
SHARES = {"SPARE", "UTILIZATION", "BACK_OFF"}


@contextmanager
def changed(change: tuple[str, float] | None) -> Iterator[None]:
    """Multiply one default by a factor inside the context, in every module that imported it by name."""
    if change is None:
        yield
        return
    module, name = change[0].rsplit(".", 1)
    before = getattr(sys.modules[f"{LAW_PACKAGE}.{module}"], name)
    value = type(before)(before * change[1])
    importers = [module for module in law_modules() if getattr(module, name, None) is before]
    for importer in importers:
        setattr(importer, name, min(value, MAX_SHARE) if name in SHARES else value)
    try:
        yield
    finally:
        for importer in importers:
            setattr(importer, name, before)


def law_modules() -> list[ModuleType]:
    """Return the imported modules of the law's package."""
    return [module for name, module in sys.modules.items() if name.startswith(LAW_PACKAGE)]
