"""Text of a pool's cost: amounts of the status, and of alternatives at the mean price of a replica. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from penstock_api.types.status import CostStatus
from penstock_kubectl.pool_context import PoolContext
from penstock_operator.decide.cost.prices import money, plain

NO_PRICES = "no policy that selects the pool has spec.pricing"
UNKNOWN = "unknown"
Fact = tuple[str, str, str]
"""(name, value, note)."""


@dataclass(frozen=True, slots=True)
class ReplicaPrice:
    """Price of an hour of one replica with all its devices."""

    per_hour: Decimal
    currency: str

    def __str__(self) -> str:
        """Return amount and unit."""
        unit = f" {self.currency}" if self.currency else ""
        return f"{plain(self.per_hour)}{unit} an hour of a replica"


def cost(subject: PoolContext) -> Iterator[Fact]:
    """Yield the amounts of the pool's cost with their derivation, or why it is unknown."""
    status = subject.pool.status.cost
    if status is None:
        yield "cost", UNKNOWN, NO_PRICES
        return
    if status.per_hour is None:
        yield "cost", UNKNOWN, status.message
        return
    hour = amount(status, status.per_hour)
    yield "an hour", hour, status.message
    yield "a day", amount(status, status.per_day), f"24 h x {hour}"
    rate = "at the rate of the last 10 minutes"
    yield "1,000 requests", amount(status, status.per_thousand_requests), f"completed, {rate}"
    if status.per_million_tokens is not None:
        yield "1,000,000 tokens", amount(status, status.per_million_tokens), f"generated, {rate}"
    if status.batch_work_per_hour is not None:
        percent, rows = status.batch_work_percent, "of the last 10 minutes"
        share = f"by its share of each variant's rows or generated tokens {rows}"
        if percent is not None:
            share = f"{percent} % of the rows or generated tokens {rows}"
        yield "batch work, an hour", amount(status, status.batch_work_per_hour), share


def amount(cost: CostStatus, value: str | None) -> str:
    """Return an amount with its currency."""
    return UNKNOWN if value is None else f"{value} {cost.currency}"


def replica_price(cost: CostStatus | None) -> ReplicaPrice | None:
    """Return the mean price of a replica; None if it is unknown."""
    if cost is None or cost.per_replica_hour is None:
        return None
    return ReplicaPrice(Decimal(cost.per_replica_hour), cost.currency or "")


def replicas_cost(cost: CostStatus | None, replicas: int) -> str:
    """Return the price of an hour of this many replicas at the mean price of today's, without currency; a dash if unknown."""
    price = replica_price(cost)
    return "-" if price is None else money(replicas * price.per_hour)
