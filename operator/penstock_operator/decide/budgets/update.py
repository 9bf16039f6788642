"""The next ledger: new quota requests of the due pools, the policies' budgets now, and the pools whose grant changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock_operator.decide.budgets.settlement import Budgets, settle
from penstock_operator.decide.quota_ledger import (
    BudgetKey,
    QuotaLedger,
    QuotaRequest,
    SurgeStage,
)
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import PolicyObject, PoolLabels

GRACE_SECONDS = 30.0
"""Time that the kubelet takes to kill a pod of a deleted pool after its drain deadline."""


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
    """Return the ledger after a pass: `news` are the requests of each pool of the pass, `pools` are all pools."""
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
    deleted = {
        uid: _after_deletion(request, now)
        for uid, request in ledger.requests.items()
        if request.pool not in alive
    }
    changed = {**_changed(ledger, news), **deleted}
    after = settle(replace(ledger, idle=ledger.idle & alive), changed, budgets, unknown, now)
    return replace(after, idle=after.idle & alive)


def requests_of_unreadable(ledger: QuotaLedger, uid: str) -> tuple[QuotaRequest, ...]:
    """Return the last requests of a pool whose spec cannot be parsed; it begins no surge."""
    return tuple(
        request._replace(surge=SurgeStage.NONE) if request.surge is SurgeStage.NEXT else request
        for request in ledger.requests.values()
        if request.pool == uid
    )


def _changed(
    ledger: QuotaLedger, news: Mapping[str, Sequence[QuotaRequest]]
) -> dict[str, QuotaRequest | None]:
    """Return the requests of `news`, and None for each request that ended."""
    changed: dict[str, QuotaRequest | None] = dict.fromkeys(news)
    changed |= {uid: None for uid, request in ledger.requests.items() if request.pool in news}
    return changed | {request.uid: request for requests in news.values() for request in requests}


def _after_deletion(request: QuotaRequest, now: float) -> QuotaRequest | None:
    """Return the devices that a deleted pool's pods still use; None once their drain time is over."""
    if request.gone is None:
        left = request._replace(requested=0, floor=0, need=0.0, deployed=0, unplaced=0, gone=now)
        return left._replace(staying=0, leaving=request.used, surge=SurgeStage.NONE)
    gone = min(request.gone, now)
    over = now - gone > request.drain_seconds + GRACE_SECONDS
    return None if over else request._replace(gone=gone)


def affected(before: QuotaLedger, after: QuotaLedger, visited: Iterable[str]) -> frozenset[str]:
    """Return the pools outside `visited` whose grant changed."""
    changed = {uid for uid, grant in after.grants.items() if before.grants.get(uid) != grant}
    changed |= before.grants.keys() - after.grants.keys()
    return frozenset(changed.difference(visited))
