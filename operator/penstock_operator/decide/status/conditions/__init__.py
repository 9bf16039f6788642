"""The conditions of a pool, one module per condition; every message names a remedy where one is needed."""

from penstock_api.conditions import Condition
from penstock_operator.decide.manifests.replica_conflict import contested
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.devices import budget_limited, devices_used
from penstock_operator.decide.status.conditions.kstatus import kstatus
from penstock_operator.decide.status.conditions.limits_applied import limits_applied
from penstock_operator.decide.status.conditions.policy_applied import policy_applied
from penstock_operator.decide.status.conditions.progress import progressing, up_to_date
from penstock_operator.decide.status.conditions.ready import ready
from penstock_operator.decide.status.conditions.routed import routed


def all_conditions(outcome: PoolOutcome, now: float) -> tuple[Condition, ...]:
    """Return every condition of the pool, in display order; `now` in Unix seconds."""
    serving, changing = ready(outcome), progressing(outcome)
    return (
        serving,
        changing,
        *kstatus(outcome, serving, changing, now),
        up_to_date(outcome),
        *_scaling(outcome),
        limits_applied(outcome),
        policy_applied(outcome),
        budget_limited(outcome),
        *devices_used(outcome),
        *routed(outcome.gateway, outcome.view.gateway),
    )


def _scaling(outcome: PoolOutcome) -> tuple[Condition, ...]:
    """Return the scaling conditions; override `Scaling` while another writer owns the replica count."""
    conditions = outcome.scaling.conditions
    if not outcome.contested:
        return conditions
    others = (condition for condition in conditions if condition.type != "Scaling")
    return (contested(outcome.replicas), *others)
