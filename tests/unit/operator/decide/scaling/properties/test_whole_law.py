"""Both laws on random walks: never an exception, a count and a cap inside their bounds, and figures that are numbers."""

import json
from math import isfinite
from typing import Any

from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.serialize import to_checkpoint
from penstock_operator.decide.scaling.guard import observe_without_decision
from penstock_operator.decide.scaling.law import Law
from penstock_operator.decide.scaling.report.alternatives import alternatives
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.law import UtilizationBand
from penstock_operator.decide.scaling.utilization_band.replicas import clamp_replicas
from tests.unit.operator.decide.scaling.properties.holds import holds
from tests.unit.operator.decide.scaling.properties.walks import WALKS, Walk, decided

LAWS: st.SearchStrategy[Law[Any]] = st.sampled_from((CapacityAtObjective(), UtilizationBand()))


@holds(examples=20, law=LAWS, walk=WALKS)
def test_a_law_bears_any_walk(law: Law[Any], walk: Walk) -> None:
    for state, seen, decision, now in decided(law, walk):
        chosen = seen.settings
        assert clamp_cap(decision.cap, chosen) == decision.cap
        assert clamp_replicas(decision.replicas, chosen) == decision.replicas
        if not decision.metrics_available:
            assert decision.replicas == clamp_replicas(seen.replicas, chosen)
        figures = decision.observations
        assert all(isfinite(figure) for figure in figures if isinstance(figure, float))
        assert all(
            isfinite(demand.replicas) and demand.replicas >= 0 for demand in decision.demands
        )
        assert decision.hold_until is None or isfinite(decision.hold_until)
        assert all(
            isfinite(alternative.utilization) for alternative in alternatives(decision, chosen)
        )
        observe_without_decision(state, seen, now)
    if law.name == "CapacityAtObjective":
        json.dumps(to_checkpoint(state), allow_nan=False)
