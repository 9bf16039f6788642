"""Quota requests with defaults, and settlements that take effect at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.quota_ledger import QuotaLedger, QuotaRequest, SurgeRoom

GPU = "nvidia.com/gpu"
BUDGET = ("prod", GPU)


def quota_request(uid: str, wanted: int, **more: Any) -> QuotaRequest:
    """Return a request for replicas of one device under the policy `prod`, with the need of the requested count."""
    plain = QuotaRequest(
        uid=uid,
        resource=GPU,
        per_replica=1,
        weight=100,
        floor=min(1, wanted),
        requested=wanted,
        need=float(wanted),
        deployed=0,
        policies=("prod",),
    )
    return plain._replace(**more)


def settled(
    count: int, *claims: QuotaRequest, ledger: QuotaLedger | None = None, now: float = 0.0
) -> QuotaLedger:
    """Settle requests under one budget of `count`."""
    news = {request.uid: request for request in claims}
    return settle(ledger or QuotaLedger(), news, {BUDGET: count}, (), now)


def shares_of(ledger: QuotaLedger) -> dict[str, int]:
    """Return each pool's share."""
    return {uid: grant.entitled for uid, grant in ledger.grants.items()}


def rooms(ledger: QuotaLedger) -> dict[str, SurgeRoom]:
    """Return each pool's room for the additional replica of a rollout."""
    return {uid: grant.surge for uid, grant in ledger.grants.items()}


def startable(ledger: QuotaLedger) -> dict[str, int]:
    """Return the replicas that each pool may have now."""
    return {uid: grant.replicas for uid, grant in ledger.grants.items()}


def deployed_at_once(
    ledger: QuotaLedger, budgets: Mapping[tuple[str, str], int], now: float
) -> QuotaLedger:
    """Deploy every grant at once, and settle again."""
    return settle(ledger, {item.uid: item for item in running(ledger)}, budgets, (), now)


def running(ledger: QuotaLedger) -> Sequence[QuotaRequest]:
    """Return the requests with every granted replica bound and running."""
    return [
        request._replace(
            deployed=ledger.grants[uid].replicas,
            staying=ledger.grants[uid].replicas * request.per_replica,
        )
        for uid, request in ledger.requests.items()
    ]
