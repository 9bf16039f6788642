"""The live limits: one published value under one generation, and the pods that do not obey it yet."""

from collections.abc import Iterator

from pydantic import ValidationError

from penstock_api import names
from penstock_api.limits import Limits, LimitsUpdate
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PodObject, PoolView

ABSURD = 2**52
"""No operator counts this far: a generation from here on was written by somebody else."""


def published(held: LimitsUpdate | None, remembered: LimitsUpdate | None) -> LimitsUpdate | None:
    """Return the limits in force: the pool's ConfigMap's (`stored`), or this operator's own newer ones.

    `remembered` bridges the moments in which the store has not yet seen the ConfigMap's last write.
    """
    known = [one for one in (held, remembered) if one is not None]
    return max(known, key=lambda one: one.generation, default=None)


def stored(view: PoolView) -> LimitsUpdate | None:
    """Return the limits that the pool's ConfigMap tells."""
    held = view.children.get(("ConfigMap", child_name(view.pool)))
    if held is None or held.controller_uid != view.pool.uid:
        return None
    text = (held.manifest.get("data") or {}).get(names.LIMITS_FILE, "")
    try:
        update = LimitsUpdate.model_validate_json(text)
    except ValidationError:
        return None  # edited by hand: the next generation heals it
    return update if update.generation < ABSURD else None


def desired_limits(effective: EffectiveSpec, cap: int) -> Limits:
    """Return what pods are to obey: the law's cap, the rest from the spec."""
    return Limits(
        max_batch_size=cap,
        max_queue_depth=effective.max_queue_depth,
        max_queue_delay_milliseconds=effective.law.max_queue_delay_milliseconds,
        discipline=effective.discipline,
        preemption=effective.preemption,
    )


def publish(
    wanted: Limits, held: LimitsUpdate | None, view: PoolView, lease_transitions: int
) -> LimitsUpdate:
    """Return `wanted` under a generation: the held one while nothing changed, else the next.

    A pod that acknowledged more than was published (a lost ConfigMap) would refuse the held one for
    ever, so that too takes the next.
    """
    seen = max(_generations(view), default=0)
    if held is not None and held.limits() == wanted and held.generation >= seen:
        return held
    floor = max(lease_transitions * 2**32, held.generation if held else 0, seen)
    return LimitsUpdate(**wanted.model_dump(), generation=1 + floor)


def _generations(view: PoolView) -> Iterator[int]:
    """Yield every generation that the pool's status or one of its pods has known."""
    if view.pool.status.batch is not None and view.pool.status.batch.generation is not None:
        yield min(view.pool.status.batch.generation, ABSURD)
    for pod in view.pods:
        answer = view.acknowledgements.get(pod.uid)
        if answer is not None and answer.generation is not None:
            yield min(answer.generation, ABSURD)


def reachable(pod: PodObject) -> bool:
    """Tell whether a pod may be called: it has an IP of its own, and is not on its way out."""
    return pod.ip is not None and not pod.host_network and not pod.terminating


def acknowledged(view: PoolView, pod: PodObject, update: LimitsUpdate) -> bool:
    """Tell whether a pod obeys the published limits."""
    answer = view.acknowledgements.get(pod.uid)
    return answer is not None and answer.generation == update.generation


def unacknowledged_pods(view: PoolView, update: LimitsUpdate) -> tuple[PodObject, ...]:
    """Return the pods that serve and do not obey the published limits; loading ones read them when they start."""
    serving = (pod for pod in view.pods if pod.ready and not pod.terminating)
    return tuple(pod for pod in serving if not acknowledged(view, pod, update))


def all_obey(view: PoolView, update: LimitsUpdate) -> bool:
    """Tell whether every pod that serves obeys the published limits."""
    return not unacknowledged_pods(view, update)


def pushes(view: PoolView, update: LimitsUpdate) -> tuple[LimitsPush, ...]:
    """Return a push for every running pod that does not obey `update`, ready or still loading."""
    return tuple(
        LimitsPush(pod.uid, pod.ip, update, pod.tls_name)
        for pod in view.pods
        if pod.ip is not None and reachable(pod) and not acknowledged(view, pod, update)
    )
