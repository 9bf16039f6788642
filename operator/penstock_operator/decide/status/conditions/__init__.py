"""What a pool's conditions say: one file a question, a reason always, a remedy in every message."""

from penstock_api.conditions import Condition
from penstock_operator.decide.manifests.replica_conflict import contested
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.status.conditions.applied import limits_applied
from penstock_operator.decide.status.conditions.budget import budget_limited
from penstock_operator.decide.status.conditions.devices import devices_used
from penstock_operator.decide.status.conditions.policy import policy_applied
from penstock_operator.decide.status.conditions.progress import progressing, up_to_date
from penstock_operator.decide.status.conditions.readiness import ready


def all_conditions(found: PoolOutcome) -> tuple[Condition, ...]:
    """Return every condition of the pool, in the order in which they are shown."""
    return (
        ready(found),
        progressing(found),
        up_to_date(found),
        *_scaling(found),
        limits_applied(found),
        policy_applied(found),
        budget_limited(found),
        *devices_used(found),
    )


def _scaling(found: PoolOutcome) -> tuple[Condition, ...]:
    """Return the scaling room's conditions, its word on Scaling overruled while it is not obeyed."""
    if not found.contested:
        return found.outcome.conditions
    others = (one for one in found.outcome.conditions if one.type != "Scaling")
    return (contested(found.replicas), *others)
