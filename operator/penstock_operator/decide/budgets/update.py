"""The next ledger: new quota requests of the due pools, the policies' budgets now, and the pools whose grant changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock_operator.decide.budgets.settlement import Budgets, settle
from penstock_operator.decide.quota_ledger import (
    BudgetKey,
    QuotaGrant,
    QuotaLedger,
    QuotaRequest,
    SurgeStage,
)
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.deleted_pool import DeletedPool
from penstock_operator.observed import PolicyObject, PoolLabels


def budgets_of_policies(policies: Iterable[PolicyObject]) -> Budgets:
    """Return the devices that each policy grants, by (policy, resource)."""
    return {
        (policy.name, budget.resource_name): budget.count
        for policy in policies
        for budget in policy.spec.gpu_budgets or ()
    }


def next_ledger(
    ledger: QuotaLedger,
    news: Mapping[str, Sequence[QuotaRequest]],
    policies: Sequence[PolicyObject],
    pools: Iterable[PoolLabels],
    now: float,
) -> QuotaLedger:
    """Return the ledger after a pass: `news` are the requests of each pool of the pass, `pools` are all that are not being deleted."""
    budgets = budgets_of_policies(policies)
    if not budgets and not ledger.requests:
        return ledger
    dividing = [policy for policy in policies if policy.spec.gpu_budgets]
    alive, unknown = set[str](), set[BudgetKey]()
    for pool in pools:
        alive.add(pool.uid)
        if pool.uid not in news and not ledger.knows(pool.uid):
            selecting = matching(pool.labels, pool.namespace_labels, dividing)
            unknown.update(budgets_of_policies(selecting))
    gone = {uid: None for uid, request in ledger.requests.items() if request.pool not in alive}
    changed = {**gone, **_changed(ledger, news)}
    after = settle(replace(ledger, idle=ledger.idle & alive), changed, budgets, unknown, now)
    return replace(after, idle=after.idle & alive)


def requests_of_unreadable(ledger: QuotaLedger, uid: str) -> tuple[QuotaRequest, ...]:
    """Return the last requests of a pool whose spec cannot be parsed; it begins no surge."""
    return tuple(
        request._replace(surge=SurgeStage.NONE) if request.surge is SurgeStage.NEXT else request
        for request in ledger.requests.values()
        if request.pool == uid
    )


def requests_of_deleted(
    ledger: QuotaLedger, pool: DeletedPool, policies: Sequence[PolicyObject]
) -> tuple[QuotaRequest, ...]:
    """Return the requests of a pool that is deleted or being deleted, for the devices that its pods use.

    A workload that outlives the pool may start the pods that the pool was granted; they count before they are bound.
    """
    dividing = (policy for policy in policies if policy.spec.gpu_budgets)
    selecting = budgets_of_policies(matching(pool.labels, pool.namespace_labels, dividing))
    before = {
        request.resource: request
        for request in ledger.requests.values()
        if request.pool == pool.uid
    }
    requests = (
        _without_pool(pool, resource, before.get(resource), ledger.grants.get(pool.uid))._replace(
            policies=tuple(name for name, budgeted in selecting if budgeted == resource)
        )
        for resource in sorted({*pool.devices, *before})
    )
    return tuple(request for request in requests if request.policies and request.committed)


def _without_pool(
    pool: DeletedPool, resource: str, before: QuotaRequest | None, grant: QuotaGrant | None
) -> QuotaRequest:
    """Return the request for one resource of a deleted pool, whose last one was `before`."""
    granted = 0 if before is None else before.deployed
    if before is not None and before.uid == pool.uid and grant is not None:
        granted = grant.replicas
    return QuotaRequest(
        uid=f"{pool.uid} {resource}",
        resource=resource,
        per_replica=1 if before is None else before.per_replica,
        weight=1,
        floor=0,
        requested=0,
        need=0.0,
        deployed=min(pool.replicas, granted),
        staying=pool.devices.get(resource, 0),
        placement="" if before is None else before.placement,
        remains_of=pool.uid,
    )


def _changed(
    ledger: QuotaLedger, news: Mapping[str, Sequence[QuotaRequest]]
) -> dict[str, QuotaRequest | None]:
    """Return the requests of `news`, and None for each request that ended."""
    changed: dict[str, QuotaRequest | None] = dict.fromkeys(news)
    changed |= {uid: None for uid, request in ledger.requests.items() if request.pool in news}
    return changed | {request.uid: request for requests in news.values() for request in requests}


def affected(before: QuotaLedger, after: QuotaLedger, visited: Iterable[str]) -> frozenset[str]:
    """Return the pools outside `visited` whose grant changed."""
    changed = {uid for uid, grant in after.grants.items() if before.grants.get(uid) != grant}
    changed |= before.grants.keys() - after.grants.keys()
    return frozenset(changed.difference(visited))
