"""DevicesUsed: present on a pool whose replicas hold devices that they do not compute on."""

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.manifests.environment import accelerator
from penstock_operator.decide.pool_outcome import PoolOutcome

DEVICES_USED = "DevicesUsed"


def devices_used(found: PoolOutcome) -> tuple[Condition, ...]:
    """Return the condition where a replica asks for several devices: the runtime computes on the first."""
    asked = accelerator(found.view.pool)
    if asked.count <= 1:
        return ()
    message = (
        f"each replica holds {asked.count} {asked.resource_name} and computes on one of them:"
        " set spec.accelerator.count to 1, and more replicas for more devices"
    )
    return (condition(DEVICES_USED, ConditionStatus.FALSE, "OneDeviceUsed", message),)
