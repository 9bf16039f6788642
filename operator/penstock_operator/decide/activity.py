"""How soon a pool is to be looked at again: at the fast tick while anything goes on, else at the slow."""

from penstock_operator.decide.limits import acknowledged
from penstock_operator.decide.pool_outcome import Findings
from penstock_operator.observed import PodSample

QUIET_SECONDS = 120.0
"""After the last sign of life: longer than the gap between two requests of a pool in use."""
IDLE_DUTY = 0.02


def busy_until(found: Findings, before: float, now: float, *, moves: bool) -> float:
    """Return until when the pool counts as busy; `moves`: this pass writes or pushes."""
    alive = moves or any(_works(one) for one in found.view.signals.samples)
    return max(before, now + QUIET_SECONDS) if alive else before


def is_active(found: Findings, busy: float, now: float) -> bool:
    """Tell whether the pool is busy, or not yet what it should be."""
    return now < busy or not _settled(found)


def _works(sample: PodSample) -> bool:
    holds = bool(sample.waiting or sample.running)
    return holds or (sample.gpu_utilization or 0.0) > IDLE_DUTY


def _settled(found: Findings) -> bool:
    """A pool that waits for somebody else's object to go is settled: its going is an event."""
    if found.conflicts or found.pinned.template is None:
        return True
    limits = found.limits
    counts = len(found.view.pods) == len(found.ready) == found.replicas
    wish = found.outcome.replicas == found.replicas
    obeyed = limits is not None and all(
        acknowledged(found.view, pod, limits) for pod in found.ready
    )
    return counts and wish and obeyed
