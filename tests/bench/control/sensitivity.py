"""How much the cost depends on each default of the law: each a quarter more, and a quarter less."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

ROOM = "penstock_operator.decide.scaling.capacity"
FACTORS = (0.75, 1.25)
DEFAULTS = (
    *(
        "batch_plan.SPARE",
        "batch_plan.UP_SECONDS",
        "batch_plan.DOWN_SECONDS",
        "batch_plan.BACK_OFF",
    ),
    *("count.UTILIZATION", "count.BUSY", "count.DEAD_BAND", "count.DRAIN_SECONDS"),
    *("count.LEAST_HOLD_SECONDS", "count.HOLD_STARTUPS"),
    *("curves.HALF_LIFE_SECONDS", "curves.PRIOR_BATCHES"),
    *("forecast.LEVEL_SECONDS", "forecast.TREND_SECONDS", "forecast.DAMPING_SECONDS"),
    *("forecast.SURE_SIGMAS", "forecast.LARGEST_TREND", "forecast.MEAN_SECONDS"),
    *("forecast.DOUBT", "forecast.RAMP_DOUBT", "forecast.RAMP_SECONDS", "misses.ALIKE"),
    *("lateness.FIRST_PRICE", "lateness.LEAST_PRICE"),
    *("lateness.ALLOWED", "lateness.PRICE_STEP", "lateness.LARGEST_PRICE"),
    *("state.SMOOTHING_SECONDS", "startup.PRIOR_P90_SECONDS"),
)
"""By module of the law's room and name."""
LEAST, MOST = 0.0, 0.98
"""Shares stay shares."""
SHARES = {"SPARE", "UTILIZATION", "BUSY", "BACK_OFF"}


@contextmanager
def changed(change: tuple[str, float] | None) -> Iterator[None]:
    """Let the law run with one default taken times a factor, in every module that knows it by name."""
    if change is None:
        yield
        return
    module, name = change[0].split(".")
    before = getattr(sys.modules[f"{ROOM}.{module}"], name)
    value = type(before)(before * change[1])
    knowing = [one for one in _room() if getattr(one, name, None) is before]
    for one in knowing:
        setattr(one, name, min(value, MOST) if name in SHARES else value)
    try:
        yield
    finally:
        for one in knowing:
            setattr(one, name, before)


def _room() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(ROOM)]
