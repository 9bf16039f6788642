"""The gateway of a namespace in the object store, the pools that need one, and what its pods answer."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import itemgetter
from typing import Any, TypeGuard

from penstock_api import names
from penstock_api.hold import StartPart
from penstock_api.types.service import RoutingMode
from penstock_operator.decide.route import live_route
from penstock_operator.kube import kinds
from penstock_operator.measured import is_measured
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import (
    ChildObject,
    GatewayView,
    OfferedDemand,
    PodObject,
    PoolObject,
    RoutedPool,
)
from penstock_operator.reconcile_state import ChildKey

SERVING, ACCEPTED = ("Listener", "Secret"), "Accepted"
"""Resources of a pool in a gateway's status that clients need, and their state once Envoy has them in force."""


@dataclass(frozen=True, slots=True)
class GatewayAnswers:
    """What the ready pods of a gateway answered: a status in JSON, or why there is none, by the pod's name."""

    by_pod: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    offered: Mapping[str, OfferedDemand] = field(default_factory=dict)
    """Demand by the name of the pool, where every pod counted it."""
    unready: tuple[Mapping[str, Any] | str, ...] = ()
    """Answers of pods that get no new connections, but may hold requests of open ones."""


NO_ANSWERS = GatewayAnswers()


def is_wanted(pool: PoolObject) -> bool:
    """Return whether the spec selects routing mode Gateway."""
    routing = pool.spec.routing
    return routing is not None and routing.mode is RoutingMode.GATEWAY


def listener_port(store: ObjectStore, pool: PoolObject) -> int | None:
    """Return the port of the pool's listener, which its own Service records."""
    service = store.by_name(kinds.SERVICE, pool.namespace, pool.name)
    return live_route(service).port if service and service.controller_uid == pool.uid else None


def routed_pools(store: ObjectStore, namespaces: Collection[str]) -> tuple[RoutedPool, ...]:
    """Return the pools in these namespaces that a gateway has to know.

    An unreadable one counts as the newest, because the oldest pool of a namespace writes the gateway's objects.
    """
    parts = (pool.part for pool in store.unreadable.values())
    unread = (replace(part, created=inf) for part in parts if part is not None)
    return tuple(
        RoutedPool(pool.uid, pool.namespace, pool.name, pool.created, wanted, port, secret)
        for pool in (*store.pools.values(), *unread)
        if pool.namespace in namespaces and not pool.deleting
        for wanted, port in [(is_wanted(pool), listener_port(store, pool))]
        for secret in [pool.spec.tls.secret_ref.name if pool.spec.tls else None]
        if wanted or port is not None
    )


def gateway_pods(store: ObjectStore, namespace: str) -> Iterator[PodObject]:
    """Yield the ready pods of the namespace's gateway."""
    for pod in all_gateway_pods(store, namespace):
        if pod.ready and not pod.terminating:
            yield pod


def all_gateway_pods(store: ObjectStore, namespace: str) -> Iterator[PodObject]:
    """Yield the pods of the namespace's gateway that run, terminating ones included: their ReplicaSet is controlled by its Deployment."""
    deployment = store.by_name(kinds.DEPLOYMENT, namespace, names.GATEWAY_NAME)
    for uid in store.of_pool(names.GATEWAY_UID):
        record = store.pods.get(uid)
        if record is None or record.namespace != namespace or record.finished:
            continue
        replica_set = store.pod_sets.get(record.controller_uid or "")
        if replica_set is None or deployment is None:
            continue
        if replica_set.controller_uid == deployment.uid:
            yield record.pod


def gateway_view(
    store: ObjectStore,
    pool: PoolObject,
    confirmed: Mapping[ChildKey, ChildObject],
    answers: GatewayAnswers,
) -> GatewayView:
    """Return the gateway of the pool's namespace as the pool needs it."""
    children = {key: item for key, item in confirmed.items() if key[1] == names.GATEWAY_NAME}
    for kind in kinds.GATEWAY_CHILDREN:
        item = store.by_name(kind, pool.namespace, names.GATEWAY_NAME)
        if item is not None:
            children[kind.kind, item.name] = item
    port = listener_port(store, pool)
    problems = {pod: _problem(answer, pool, port) for pod, answer in answers.by_pod.items()}
    failing = sorted(f"pod {pod}: {problem}" for pod, problem in problems.items() if problem)
    states = [_state(answer, pool) for answer in answers.by_pod.values()]
    leaving = (_state(answer, pool) for answer in answers.unready)
    return GatewayView(
        children,
        len(problems),
        bool(problems) and not failing,
        failing[0] if failing else "",
        holding=bool(states) and all(state.get("holds") is True for state in states),
        held_requests=sum(map(_held, (*states, *leaving))),
        last_start=max(map(_last_start, states), default=(0.0, {}), key=itemgetter(0))[1],
        offered=answers.offered.get(pool.name),
    )


def counters(by_pod: Mapping[str, Mapping[str, Any] | str]) -> dict[str, dict[str, int]]:
    """Return the requests that each pod counted, by pool and pod: of the pools that every pod knows."""
    counted: dict[str, dict[str, int]] = {}
    for pod, answer in by_pod.items():
        known = None if isinstance(answer, str) else answer.get("pools")
        for pool, state in known.items() if isinstance(known, dict) else ():
            count = state.get("offered") if isinstance(state, dict) else None
            if _is_count(count):
                counted.setdefault(pool, {})[pod] = count
    return {pool: counts for pool, counts in counted.items() if len(counts) == len(by_pod)}


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and is_measured(value)


def _state(answer: Mapping[str, Any] | str, pool: PoolObject) -> Mapping[str, Any]:
    """Return what a gateway's pod answers about the pool; empty if it does not know it."""
    known = None if isinstance(answer, str) else answer.get("pools")
    state = known.get(pool.name) if isinstance(known, dict) else None
    return state if isinstance(state, dict) else {}


def _held(state: Mapping[str, Any]) -> int:
    demand = state.get("held")
    requests = demand.get("requests") if isinstance(demand, dict) else 0
    return requests if _is_count(requests) else 0


def _last_start(state: Mapping[str, Any]) -> tuple[float, Mapping[StartPart, float]]:
    """Return when the last start ended, in Unix seconds, and its parts; (0, {}) without one."""
    try:
        start = state["lastStart"]
        seconds = {part: float(start["seconds"][part]) for part in StartPart}
        ended = float(start["ended"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0.0, {}
    return (ended, seconds) if all(map(is_measured, (ended, *seconds.values()))) else (0.0, {})


def _problem(answer: Mapping[str, Any] | str, pool: PoolObject, port: int | None) -> str:
    """Return why a gateway's pod does not listen for the pool on `port`; empty if it does."""
    if isinstance(answer, str):
        return answer
    state = _state(answer, pool)
    if port is None or state.get("port") != port:
        unroutable = answer.get("unroutableServices")
        why = unroutable.get(pool.name) if isinstance(unroutable, dict) else None
        return str(why or "it does not know the pool yet")
    if rejections := state.get("rejections"):
        return _rejection(rejections)
    if problem := state.get("certificateProblem"):
        return f"its certificate is not renewed: {problem}"
    resources = state.get("resources")
    if not isinstance(resources, dict) or SERVING[0] not in resources:
        return "Envoy has not accepted the listener yet"
    waiting = [name for name in SERVING if resources.get(name, ACCEPTED) != ACCEPTED]
    return f"Envoy has not accepted the {waiting[0].lower()} yet" if waiting else ""


def _rejection(rejections: Any) -> str:
    try:
        first = rejections[0]
        return f"Envoy rejected its {first['resource'].lower()}: {first['message']}"
    except (AttributeError, LookupError, TypeError):
        return "its rejections are not in the format of a gateway's status"
