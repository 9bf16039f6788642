"""What the cluster can place, where a budget grants more: found out by pods that wait for a device. Pure.

While such pods are there, no more than the devices that bound pods hold can be had. One replica too many is left
to wait, at the pool that needs it most: it starts by itself when there is room, tells this operator so, and is
what a cluster autoscaler goes by.
"""

from penstock_operator.decide.ledger import Pressure

MEMORY_SECONDS = 60.0
"""A device counts as there for so long after its pod went: the next pod takes a moment to be bound."""


def pressed(before: Pressure | None, *, placed: int, waiting: bool, now: float) -> Pressure | None:
    """Return the pressure with the devices `placed` now; None where the cluster places all that is asked for."""
    if not waiting and (before is None or now - before.seen > MEMORY_SECONDS):
        return None
    held = before.placed if before is not None else ()
    kept = tuple(
        (when, most) for when, most in held if most > placed and now - when <= MEMORY_SECONDS
    )
    seen = now if waiting or before is None else before.seen
    return Pressure(seen, (*kept, (now, placed)))
