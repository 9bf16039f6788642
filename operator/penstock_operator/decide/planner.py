"""The pass's middle: what was observed becomes one plan. Pure; one pool's failure is its own."""

from collections.abc import Mapping

from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.plan import Plan
from penstock_operator.observed import Observed


def make_plan(
    observed: Observed, states: Mapping[str, object], config: DecideConfig, now: float
) -> Plan:
    """Return everything one pass wants; `states` are the plans' `law_state` of the pass before."""
    del observed, states, config, now
    return Plan(pools=(), policies=())
