"""Claims in few words, and settlings that come true at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.ledger import QuotaLedger, QuotaRequest

GPU = "nvidia.com/gpu"
BUDGET = ("prod", GPU)


def request(uid: str, wanted: int, **more: Any) -> QuotaRequest:
    """A claim of one-device replicas under the policy `prod`, whose need is what is wanted."""
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
    return replace(plain, **more)


def settled(
    count: int, *claims: QuotaRequest, ledger: QuotaLedger | None = None, now: float = 0.0
) -> QuotaLedger:
    """Settle claims under one budget of `count`."""
    news = {one.uid: one for one in claims}
    return settle(ledger or QuotaLedger(), news, {BUDGET: count}, (), now)


def entitled(ledger: QuotaLedger) -> dict[str, int]:
    """Return each pool's share."""
    return {uid: grant.entitled for uid, grant in ledger.grants.items()}


def asked_for(ledger: QuotaLedger) -> dict[str, int]:
    """Return what each pool may ask for now."""
    return {uid: grant.replicas for uid, grant in ledger.grants.items()}


def obeyed(ledger: QuotaLedger, budgets: Mapping[tuple[str, str], int], now: float) -> QuotaLedger:
    """Let every pool do at once what it was granted, and settle again."""
    return settle(ledger, {one.uid: one for one in running(ledger)}, budgets, (), now)


def running(ledger: QuotaLedger) -> Sequence[QuotaRequest]:
    """Return the claims with every granted replica bound and running."""
    return [
        replace(
            one,
            deployed=ledger.grants[uid].replicas,
            staying=ledger.grants[uid].replicas * one.per_replica,
        )
        for uid, one in ledger.requests.items()
    ]
