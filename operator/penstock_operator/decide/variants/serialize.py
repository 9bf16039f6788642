"""The checkpoint of the demand of a pool with variants as bounded JSON data: forecast and price of lateness. Pure.

It has the fields of CapacityAtObjective's (`capacity_at_objective/serialize.py`). The curves and start-up times are in those of
the variants' pools, and the capacities in the status.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    demand_traffic,
    is_recent,
    stored_forecaster,
    stored_lateness,
    stored_traffic,
)
from penstock_operator.decide.scaling.law import RequestSpread
from penstock_operator.decide.variants.demand import PooledState

DIGITS = 4


def pooled_checkpoint(state: PooledState) -> dict[str, Any]:
    """Return the state as JSON data, at most about 2 KiB; empty if nothing has been learned yet."""
    if state.forecaster.time is None:
        return {}
    traffic = demand_traffic(state.forecaster, state.lateness)
    traffic.dispersion = float(f"{state.dispersion or 1.0:.{DIGITS}g}")
    if state.routed:
        traffic.spread = RequestSpread.LEAST_REQUEST
    data: dict[str, Any] = to_builtins(traffic)
    return data


def pooled_state(data: Mapping[str, Any], written: float, now: float) -> PooledState:
    """Return what `data` stores since `written` (Unix seconds) and is not too old."""
    traffic = stored_traffic(data, written, now)
    return PooledState(
        forecaster=stored_forecaster(traffic, written, now),
        lateness=stored_lateness(traffic),
        dispersion=max(traffic.dispersion, 1.0) if is_recent(written, now) else None,
        routed=traffic.spread is RequestSpread.LEAST_REQUEST,
    )
