"""The cost of a pool: the price of an hour of its pods, a day, 1,000 requests and a million tokens. Pure.

Every pod counts from binding to a node until it ends, as for a budget. If the price of one pod is unknown, so is the cost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from penstock_api.types.status import CostStatus
from penstock_operator.decide.cost.prices import (
    PodPrice,
    PriceList,
    UnknownPrice,
    depends_on_node,
    money,
    pod_price,
    pod_resources,
    price_list,
)
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.revision import template_of
from penstock_operator.decide.scaling.signals.attainment import Throughput
from penstock_operator.observed import PodObject, PolicyObject, PoolView

HOURS_PER_DAY, SECONDS_PER_HOUR = 24, 3600
THOUSAND, MILLION = 1000, 1_000_000
MAX_MESSAGE = 1024
"""The schema's own bound."""
MAX_PARTS = 4
MAX_AMOUNT = Decimal(10) ** 15
"""Largest reported amount: larger ones are meaningless and exceed the schema."""


@dataclass(frozen=True, slots=True)
class PoolPrice:
    """The price of a pool's pods, which changes only with them, their nodes and the policies."""

    status: CostStatus
    """The cost without what depends on the traffic."""
    per_hour: Decimal | None = None
    """None: unknown."""
    per_replica: Decimal | None = None
    """Mean of the pods that stay. None: unknown, or without any."""
    per_template: Decimal | None = None
    """Price of a pod of the template. None: unknown, or it depends on the node."""

    def cost(self, throughput: Throughput) -> CostStatus:
        """Return the cost at a throughput."""
        if self.per_hour is None:
            return self.status
        share = Decimal(throughput.batch_share or 0)
        units = {
            "per_thousand_requests": per_units(
                self.per_hour, throughput.requests_per_second, THOUSAND
            ),
            "per_million_tokens": per_units(self.per_hour, throughput.tokens_per_second, MILLION),
            "batch_work_percent": f"{100 * share:.1f}" if share else None,
            "batch_work_per_hour": money(min(share * self.per_hour, MAX_AMOUNT)) if share else None,
        }
        return self.status.model_copy(update=units)


def pool_price(
    view: PoolView, current: Manifest | None, policies: Sequence[PolicyObject]
) -> PoolPrice | None:
    """Return the price; None while none of `policies` (highest priority first) has any. `current` is the pinned template."""
    prices = price_list(policies)
    if prices is None:
        return None
    if isinstance(prices, UnknownPrice):
        return PoolPrice(CostStatus(message=prices.reason))
    by_pod = [(pod, price) for pod, price in _pod_prices(view, current, prices)]
    unknown = [price for _, price in by_pod if isinstance(price, UnknownPrice)]
    if unknown:
        message = (
            f"the price of {len(unknown)} of {len(by_pod)} pods is unknown: {unknown[0].reason}"
        )
        unpriced = _status(prices, message + _caveat(view, prices))
        return PoolPrice(unpriced, per_template=_template_price(current, prices))
    known = [(pod, price) for pod, price in by_pod if isinstance(price, PodPrice)]
    per_hour = sum((price.per_hour for _, price in known), Decimal(0))
    staying = [price.per_hour for pod, price in known if not pod.terminating]
    each = sum(staying, Decimal(0)) / len(staying) if staying else None
    status = _status(
        prices,
        _composition(prices, [price for _, price in known]) + _caveat(view, prices),
        per_hour=money(min(per_hour, MAX_AMOUNT)),
        per_day=money(min(HOURS_PER_DAY * per_hour, MAX_AMOUNT)),
        per_replica_hour=None if each is None else money(each),
    )
    return PoolPrice(status, per_hour, each, _template_price(current, prices))


def _template_price(current: Manifest | None, prices: PriceList) -> Decimal | None:
    """Return the price of a pod of the template, if it is the same on every node that the template selects."""
    selected = ((current or {}).get("spec") or {}).get("nodeSelector") or {}
    resources = pod_resources(current)
    if depends_on_node(prices, resources, selected):
        return None
    price = pod_price(prices, resources, selected)
    return price.per_hour if isinstance(price, PodPrice) else None


def per_units(per_hour: Decimal, per_second: float | None, units: int) -> str | None:
    """Return the cost of `units` requests or tokens at a rate per second; None without any."""
    if not per_second:
        return None
    cost = per_hour * units / (Decimal(per_second) * SECONDS_PER_HOUR)
    return money(min(cost, MAX_AMOUNT))


def known_labels(pod: PodObject, nodes: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Return the labels of a pod's node that are known: those that the pod selects it by, and those that were read."""
    return {**pod.node_selector, **nodes.get(pod.node or "", {})}


def _pod_prices(
    view: PoolView, current: Manifest | None, prices: PriceList
) -> Iterator[tuple[PodObject, PodPrice | UnknownPrice]]:
    resources = {revision.name: pod_resources(template_of(revision)) for revision in view.revisions}
    pinned = pod_resources(current)
    for pod in view.pods:
        if pod.scheduled:
            requested = resources.get(pod.revision or "", pinned)
            yield pod, pod_price(prices, requested, known_labels(pod, view.nodes.labels))


def _composition(prices: PriceList, known: Sequence[PodPrice]) -> str:
    if not known:
        return f"no pod is bound to a node; prices of policy {prices.policy}"
    counts = Counter(f"at {money(price.per_hour)} {prices.currency}: {price}" for price in known)
    parts = [
        f"{count} {'pod' if count == 1 else 'pods'} {text}" for text, count in counts.most_common()
    ]
    more = f"; and {len(parts) - MAX_PARTS} more kinds" if len(parts) > MAX_PARTS else ""
    return f"{'; '.join(parts[:MAX_PARTS])}{more}; prices of policy {prices.policy}"


def _caveat(view: PoolView, prices: PriceList) -> str:
    problem = view.nodes.problem
    if not problem or not prices.by_node:
        return ""
    return f"; prices by node label apply only to labels in spec.template.nodeSelector: {problem}"


def _status(prices: PriceList, message: str, **amounts: str | None) -> CostStatus:
    return CostStatus(currency=prices.currency, message=message[:MAX_MESSAGE], **amounts)
