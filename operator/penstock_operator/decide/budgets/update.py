"""The ledger from pass to pass: claims of the pools that are due, what policies grant now, and who is to be woken."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock_operator.decide.budgets.settlement import Budgets, settle
from penstock_operator.decide.ledger import BudgetKey, QuotaLedger, QuotaRequest
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import PolicyObject, PoolLabels

GRACE_SECONDS = 30.0
"""After its drain deadline a deleted pool's pod is killed; the kubelet takes a moment."""


def budgets_of_policies(policies: Iterable[PolicyObject]) -> Budgets:
    """Return the devices that each policy grants, by (policy, resource)."""
    return {
        (one.name, budget.resource_name): budget.count
        for one in policies
        for budget in one.spec.gpu_budgets or ()
    }


def next_ledger(
    ledger: QuotaLedger,
    news: Mapping[str, Sequence[QuotaRequest]],
    policies: Sequence[PolicyObject],
    pools: Iterable[PoolLabels],
    now: float,
) -> QuotaLedger:
    """Return the ledger after a pass; `news` are the claims of each pool that it looked at, `pools` all there are."""
    budgets = budgets_of_policies(policies)
    if not budgets and not ledger.claims:
        return ledger
    dividing = [one for one in policies if one.spec.gpu_budgets]
    alive, unknown = set[str](), set[BudgetKey]()
    for one in pools:
        alive.add(one.uid)
        if one.uid not in news and not ledger.knows(one.uid):
            selecting = matching(one.labels, one.namespace_labels, dividing)
            unknown.update(budgets_of_policies(selecting))
    gone = {uid: _ghost(one, now) for uid, one in ledger.claims.items() if one.pool not in alive}
    changed = {**_changed(ledger, news), **gone}
    after = settle(replace(ledger, idle=ledger.idle & alive), changed, budgets, unknown, now)
    return replace(after, idle=after.idle & alive)


def _changed(
    ledger: QuotaLedger, news: Mapping[str, Sequence[QuotaRequest]]
) -> dict[str, QuotaRequest | None]:
    """Return the claims of `news`, and None for each that is no more."""
    changed: dict[str, QuotaRequest | None] = dict.fromkeys(news)
    changed |= {uid: None for uid, one in ledger.claims.items() if one.pool in news}
    return changed | {one.uid: one for claims in news.values() for one in claims}


def _ghost(one: QuotaRequest, now: float) -> QuotaRequest | None:
    """Return what a deleted pool's pods still hold; None once they must have drained."""
    if one.gone is None:
        left = replace(one, requested=0, floor=0, need=0.0, deployed=0, unplaced=0, gone=now)
        return replace(left, staying=0, leaving=one.used)
    return None if now - one.gone > one.drain_seconds + GRACE_SECONDS else one


def affected(before: QuotaLedger, after: QuotaLedger, visited: Iterable[str]) -> frozenset[str]:
    """Return the pools whose grant changed though this pass did not visit them."""
    changed = {uid for uid, one in after.grants.items() if before.grants.get(uid) != one}
    changed |= before.grants.keys() - after.grants.keys()
    return frozenset(changed.difference(visited))
