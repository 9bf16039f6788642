"""Live limits of a pool: one value published under one generation, and the pods that have not acknowledged it."""

from collections.abc import Iterator

from pydantic import ValidationError

from penstock_api import names
from penstock_api.pod_contract import Limits, LimitsUpdate
from penstock_operator.decide.actions import LimitsPush
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PodObject, PoolView

MAX_GENERATION = 2**52
"""No operator reaches this generation: it, or a higher one, comes from another writer."""


def published(
    stored: LimitsUpdate | None, last_published: LimitsUpdate | None
) -> LimitsUpdate | None:
    """Return the limits in force: those of the pool's ConfigMap, or newer ones that this process published.

    `last_published` is in force until the cache contains the last write of the ConfigMap.
    """
    known = [update for update in (stored, last_published) if update is not None]
    return max(known, key=lambda update: update.generation, default=None)


def stored_limits(view: PoolView) -> LimitsUpdate | None:
    """Return the limits in the pool's ConfigMap; None without valid ones."""
    settings = view.children.get(("ConfigMap", child_name(view.pool)))
    if settings is None or settings.controller_uid != view.pool.uid:
        return None
    text = (settings.manifest.get("data") or {}).get(names.LIMITS_FILE, "")
    try:
        update = LimitsUpdate.model_validate_json(text)
    except ValidationError:
        return None  # edited by hand: the next generation repairs it
    return update if update.generation < MAX_GENERATION else None


def desired_limits(effective: EffectiveSpec, cap: int) -> Limits:
    """Return the limits for pods: the law's cap, the rest from the spec; a step has a token for every sequence of the cap."""
    tokens = effective.max_batched_tokens
    return Limits(
        max_batch_size=cap,
        max_queue_depth=effective.max_queue_depth,
        max_queue_delay_milliseconds=effective.law.max_queue_delay_milliseconds,
        discipline=effective.discipline,
        max_batched_tokens=None if tokens is None else max(tokens, cap),
        preemption=effective.preemption,
    )


def publish(
    desired: Limits, current: LimitsUpdate | None, view: PoolView, lease_transitions: int
) -> LimitsUpdate:
    """Return `desired` under a generation: that of `current` while nothing changed, else the next.

    A pod that acknowledged a higher generation (the ConfigMap was lost) rejects the current one, so the next one is
    used then too.
    """
    highest = max(_generations(view), default=0)
    if current is not None and current.generation >= highest and _same(current, desired):
        return current
    floor = max(lease_transitions * 2**32, current.generation if current else 0, highest)
    return LimitsUpdate(**desired.model_dump(), generation=1 + floor)


def _same(current: LimitsUpdate, desired: Limits) -> bool:
    return all(getattr(current, name) == value for name, value in desired)


def _generations(view: PoolView) -> Iterator[int]:
    """Yield the generations in the pool's status and in its pods' acknowledgements."""
    if view.pool.status.batch is not None and view.pool.status.batch.generation is not None:
        yield min(view.pool.status.batch.generation, MAX_GENERATION)
    for pod in view.pods:
        answer = view.acknowledgements.get(pod.uid)
        if answer is not None and answer.generation is not None:
            yield min(answer.generation, MAX_GENERATION)


def reachable(pod: PodObject) -> bool:
    """Return whether the operator may call a pod: it has an IP of its own and is not terminating."""
    return pod.ip is not None and not pod.host_network and not pod.terminating


def acknowledged(view: PoolView, pod: PodObject, update: LimitsUpdate) -> bool:
    """Return whether a pod acknowledged the published limits."""
    answer = view.acknowledgements.get(pod.uid)
    return answer is not None and answer.generation == update.generation


def unacknowledged_pods(view: PoolView, update: LimitsUpdate) -> tuple[PodObject, ...]:
    """Return the Ready pods without an acknowledgement of `update`; loading pods read the limits at startup."""
    serving = (pod for pod in view.pods if pod.ready and not pod.terminating)
    return tuple(pod for pod in serving if not acknowledged(view, pod, update))


def all_acknowledged(view: PoolView, update: LimitsUpdate) -> bool:
    """Return whether every Ready pod acknowledged the published limits."""
    return not unacknowledged_pods(view, update)


def pushes(view: PoolView, update: LimitsUpdate) -> tuple[LimitsPush, ...]:
    """Return a push for every reachable pod without an acknowledgement of `update`, Ready or loading."""
    return tuple(
        LimitsPush(pod.uid, pod.ip, update, pod.tls_name)
        for pod in view.pods
        if pod.ip is not None and reachable(pod) and not acknowledged(view, pod, update)
    )
