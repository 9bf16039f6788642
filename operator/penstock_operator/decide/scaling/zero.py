"""Scale to zero: a step around every law in mode Auto with `minReplicas` 0. Pure.

The law decides from one replica up. The last one goes after `idleSeconds` without a request, while the gateway holds what
comes then; the first request that it holds starts one replica, and the law decides again once that is Ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.manifests.service import own_service
from penstock_operator.decide.route import RouteStep, live_route
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason
from penstock_operator.decide.scaling.signals.windows import newest_samples
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import GatewayView, PoolView

FRESH_SECONDS = 30.0
"""Age of a sample up to which its counter says that no request came since."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The last sign of a request and the time of this tick, in Unix seconds."""

    last: float
    now: float
    received: Mapping[str, float] = field(default_factory=dict)
    """Requests that each live pod had received, by UID."""


def may_be_at_zero(spec: EffectiveSpec) -> bool:
    """Return whether the pool may have no replica."""
    return spec.scaling_mode is ScalingMode.AUTO and spec.law.min_replicas == 0


def never_at_zero(spec: EffectiveSpec) -> EffectiveSpec:
    """Return the spec of a pool for which nothing holds requests, as without a gateway."""
    if spec.law.min_replicas >= 1:
        return spec
    return replace(spec, law=replace(spec.law, min_replicas=1))


def observe_activity(
    before: Activity | None, observed: LawInput, held_requests: int, now: float
) -> Activity:
    """Return the activity after this tick; the time begins at a restart of the operator and at each Ready pod."""
    newest = newest_samples(observed.signals)
    received = {uid: sample.requests_received or 0.0 for uid, sample in newest.items()}
    if before is None:
        return Activity(now, now, received)
    grown = any(count > before.received.get(uid, 0.0) for uid, count in received.items())
    works = any(sample.waiting or sample.running for sample in newest.values())
    since = [before.last, *(pod.ready_since or 0.0 for pod in observed.pods if pod.ready)]
    last = now if grown or works or held_requests else max(since)
    known = {**before.received, **received}
    live = {pod.uid: known[pod.uid] for pod in observed.pods if pod.uid in known}
    return Activity(last, now, live)


def zero_step(
    decision: Decision,
    idle_seconds: int,
    observed: LawInput,
    gateway: GatewayView,
    activity: Activity,
) -> Decision:
    """Return the law's decision for a routed pool, or the one that leads to zero, keeps it or ends it."""
    if observed.replicas == 0:
        why = _start(observed, gateway, activity)
        if why:
            count = max(decision.replicas, 1)
            return decision.with_count(ReplicasMove(count, ReplicasReason.REQUESTS_HELD, why))
        why = "no request came; the first that the gateway holds starts a replica"
        return decision.with_count(ReplicasMove(0, ReplicasReason.IDLE, why))
    if observed.replicas > 1 or decision.replicas > 1:
        return decision
    if activity.now - activity.last < idle_seconds or not _is_quiet(
        observed, gateway, activity.now
    ):
        return decision
    why = f"no request came for {idle_seconds} s"
    return decision.with_count(ReplicasMove(0, ReplicasReason.IDLE, why))


def _start(observed: LawInput, gateway: GatewayView, activity: Activity) -> str:
    """Return why a replica starts at zero; empty while no request came.

    At zero, pods are Ready until they terminate, or because the count is that of a candidate in shadow.
    """
    if requests := gateway.held_requests:
        return f"the gateway holds {requests} request{'s' if requests > 1 else ''}"
    serving = any(pod.ready and not pod.terminating for pod in observed.pods)
    return "the pods receive requests" if serving and activity.last == activity.now else ""


def is_routed(view: PoolView) -> bool:
    """Return whether the pool's Service selects the gateway."""
    return live_route(own_service(view)).step is RouteStep.ROUTED


def _is_quiet(observed: LawInput, gateway: GatewayView, now: float) -> bool:
    """Return whether every gateway holds what may come, and every pod is Ready and has said that nothing did."""
    newest, read_at = newest_samples(observed.signals), observed.signals.queried_at or now
    staying = [pod for pod in observed.pods if not pod.terminating]
    return (
        gateway.holding
        and not gateway.held_requests
        and bool(staying)
        and all(
            pod.ready
            and (sample := newest.get(pod.uid)) is not None
            and sample.requests_received is not None
            and read_at - sample.time <= FRESH_SECONDS
            for pod in staying
        )
    )
